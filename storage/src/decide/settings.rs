//! Rules for changing a tenant's configuration. Old anchors are read by the new
//! configuration from here on: nothing is anchored anew.

use crate::change::Change;
use crate::command::{Decision, Refusal, Reply};
use crate::decide::Draft;
use crate::error::Result;
use crate::model::id::TenantId;
use crate::model::thermo::SettingValue;
use crate::table::view::View;

pub(super) fn configure(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    changes: &[(String, SettingValue)],
) -> Result<Decision> {
    let Some(mut row) = draft.tenant(tenant)? else {
        return Ok(Err(Refusal::WrongState("there is no such tenant".into())));
    };
    let thermo = match row.thermo.with(changes) {
        Ok(thermo) => thermo,
        Err(fault) => return Ok(Err(Refusal::Setting(fault))),
    };
    let thermo = Box::new(thermo);
    if thermo != row.thermo {
        row.thermo = thermo.clone();
        draft.push(Change::TenantPut(tenant, row));
    }
    Ok(Ok(Reply::Configured(thermo)))
}
