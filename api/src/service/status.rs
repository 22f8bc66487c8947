//! This node: its health, its contact with a leader, what it reports to the leader, and operations on its
//! cluster. A tenant: its name, settings, counts and analytics.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use raft::{ClusterStatus, Operation, OperationResult, Status, SubmitError};
use storage::command::ChangeTenant;
use storage::model::access::Caller;
use storage::model::analytics::{RecallStats, Usage};
use storage::model::id::MemoryId;
use storage::model::memory::MemoryRecord;
use storage::model::retention::RetentionRule;
use storage::model::score::Factors;
use storage::model::tenant::{Limit, Role, Tenant};
use storage::model::thermo::{Reinforcement, SettingValue, Thermo};
use storage::model::tick::Tick;
use storage::{
    Counts, DueRequest, Filter, Forecast, Hit, HotRequest, Overview, OwnTenantPatch, Reader, View,
};

use crate::error::{ApiError, ApiResult};
use crate::limits::{FORECAST_DAYS, OPERATION_DEADLINE, RECALLED_SCORE_MIN, STALENESS_MAX};
use crate::service::freshness::Freshness;
use crate::service::recall_counts::{LAST_REPORT_ROOM, REPORT_ROOM};
use crate::service::recalls::{DueReport, RecallBuffer};
use crate::service::{Operator, Service, Session};

/// The health of a node.
pub(crate) struct Health {
    pub(crate) live: bool,
    pub(crate) ready: bool,
    /// Name of each check, and the reason if it failed.
    pub(crate) checks: Vec<(&'static str, Option<String>)>,
}

impl Operator {
    /// The cluster as this node sees it, also without a leader.
    pub(crate) fn local_status(&self) -> ApiResult<ClusterStatus> {
        Ok(self.service.raft.cluster_status().ok_or(SubmitError::Quarantined)?)
    }

    /// Carries out an operation on the cluster, wherever its leader is.
    pub(crate) async fn operate(&self, operation: Operation) -> ApiResult<OperationResult> {
        Ok(self
            .service
            .raft
            .operate(operation, tokio::time::Instant::now() + OPERATION_DEADLINE)
            .await?)
    }
}

impl Service {
    /// Checks everything that a node needs to serve requests. `is_draining` is whether it shuts
    /// down.
    pub(crate) fn health(&self, is_draining: bool) -> Health {
        let fault = self.raft.fault().cause();
        let cluster = match self.reader.cluster() {
            Ok(Some(_)) => None,
            Ok(None) => Some(
                "this node belongs to no cluster yet: `hearth cluster add` adds it to one. Only if none \
                 exists, start one node with --bootstrap",
            ),
            Err(_) => Some("the cluster's identity cannot be read"),
        };
        let leader = (!self.is_in_contact()).then_some("no contact with a leader");
        let accepting = is_draining.then_some("this node is shutting down");
        let checks = vec![
            // The cause is in the node's log only.
            ("storage", fault.as_ref().map(|_| "storage failed; this node stops".to_owned())),
            ("log", self.node_status().quarantine),
            ("leader", leader.map(str::to_owned)),
            ("cluster", cluster.map(str::to_owned)),
            ("accepting", accepting.map(str::to_owned)),
        ];
        let ready = checks.iter().all(|(_, reason)| reason.is_none());
        Health { live: fault.is_none(), ready, checks }
    }

    /// Whether the contact of this node with a leader is within the default staleness bound.
    pub(crate) fn is_in_contact(&self) -> bool {
        self.raft.staleness().is_some_and(|staleness| staleness <= STALENESS_MAX)
    }

    pub(crate) fn node_status(&self) -> Status {
        self.raft.status()
    }

    /// What this node has not reported yet.
    pub(crate) fn recalls(&self) -> &RecallBuffer {
        &self.recalls
    }

    /// Counts a search and what it returned, best first. Without words it recalls nothing. That of a
    /// reader, which changes nothing, recalls nothing and fires nothing.
    pub(crate) fn count_search(&self, caller: &Caller, returned: &[Hit], has_words: bool) {
        let reinforcement = self.reader.thermo(caller.tenant).reinforcement;
        let warms = has_words && caller.role > Role::Reader;
        let recalled = if warms { recalled(returned, &reinforcement) } else { Vec::new() };
        let of_caller = (caller.tenant, caller.key);
        self.recalls.count(of_caller, !returned.is_empty(), &recalled);
        if caller.role == Role::Reader {
            return;
        }
        // Most results are of the same few namespaces and types.
        let mut owners = BTreeMap::new();
        let results =
            returned.iter().map(|Hit { record: MemoryRecord { id, memory, .. }, .. }| {
                let (namespace, memory_type) = (memory.namespace.as_str(), memory.memory_type);
                let waiting = owners.entry((namespace, memory_type)).or_insert_with(|| {
                    Rc::new(self.reader.owners_on_recall(caller.tenant, namespace, memory_type))
                });
                (*id, Rc::clone(waiting))
            });
        self.recalls.add_results(of_caller, results);
    }

    /// The returned memories, requests and key uses since the last report; `all` of them, or those
    /// due.
    pub(crate) fn report(&self, all: bool) -> DueReport {
        let reader = &self.reader;
        let interval = |tenant| {
            let seconds = reader.thermo(tenant).reinforcement.recall_min_interval_seconds;
            if all { Duration::ZERO } else { Duration::from_secs(seconds.into()) }
        };
        let room = if all { &LAST_REPORT_ROOM } else { &REPORT_ROOM };
        let mut report = self.recalls.take(Instant::now(), reader.position().clock, room, interval);
        report.is_full |= self.key_uses.report(&mut report.tenants);
        report
    }
}

/// The results that a caller has probably used: of the first ones, those that answer the query
/// nearly as well as the best. Heat does not count: what is hot would become hotter for questions
/// that it does not answer.
fn recalled(returned: &[Hit], reinforcement: &Reinforcement) -> Vec<MemoryId> {
    let first = returned.iter().take(reinforcement.recalled_results as usize);
    let scored = first.map(|hit| {
        let without_heat = |factors: Factors| factors.without_heat(&hit.weights);
        (hit.record.id, hit.factors.map_or(hit.score, without_heat))
    });
    let scored: Vec<_> = scored.collect();
    let best = scored.iter().map(|(_, score)| *score).fold(0.0, f64::max);
    let lowest = (best * reinforcement.recalled_share).max(RECALLED_SCORE_MIN);
    scored.into_iter().filter(|(_, score)| *score >= lowest).map(|(id, _)| id).collect()
}

/// Counts of a tenant as a dashboard shows them, from one read.
pub(crate) struct Summary {
    pub(crate) overview: Overview,
    pub(crate) edges: u64,
    pub(crate) hottest: Option<MemoryRecord>,
    pub(crate) coldest: Option<MemoryRecord>,
    /// Of the present calendar month.
    pub(crate) usage: Usage,
    pub(crate) tick: Option<Tick>,
}

impl Session {
    pub(crate) async fn tenant(&self) -> ApiResult<Tenant> {
        let tenant = self.read(|reader, caller| reader.tenant(caller.tenant)).await?;
        tenant.ok_or_else(ApiError::internal)
    }

    /// A limit of the tenant; `None` is unlimited.
    pub(crate) fn limit(&self, limit: Limit) -> Option<u64> {
        self.service.reader.limit(self.caller.tenant, limit)
    }

    /// Changes what an admin may change of the tenant.
    pub(crate) async fn change_tenant(&self, patch: OwnTenantPatch) -> ApiResult<Freshness> {
        if patch == OwnTenantPatch::default() {
            return Ok(self.service.present());
        }
        Ok(self.submit(ChangeTenant(patch)).await?.freshness)
    }
    /// Forecasts for [`FORECAST_DAYS`] under the present settings and under changed ones; only of
    /// memories that the caller may access. Returns the changed settings too.
    pub(crate) async fn forecasts(
        &self,
        changes: Vec<(String, SettingValue)>,
    ) -> ApiResult<(Thermo, [Forecast; 2])> {
        let read = self.read(move |reader, caller| {
            let present = reader.thermo(caller.tenant);
            let Ok(proposed) = present.with(&changes) else { return Ok(None) };
            let filter = Filter { access: caller.access.clone(), ..Filter::default() };
            let forecasts = [&present, &proposed]
                .map(|thermo| reader.forecast(caller.tenant, &filter, thermo, &FORECAST_DAYS));
            Ok(Some((proposed, forecasts)))
        });
        read.await?.ok_or_else(ApiError::internal)
    }

    /// Number of memories on which each rule would be due now.
    pub(crate) async fn retention_due(&self, rules: Vec<RetentionRule>) -> ApiResult<Vec<u64>> {
        self.read(move |reader, caller| {
            let (thermo, now) = (&reader.thermo(caller.tenant), reader.position().clock);
            let request = DueRequest { rules: &rules, thermo, now, reached: None, limit: 0 };
            Ok(reader.retention_due(caller.tenant, &request).1)
        })
        .await
    }

    /// Counts of the memories that pass each filter, from one read.
    pub(crate) async fn overviews(&self, filters: Vec<Filter>) -> ApiResult<Vec<Overview>> {
        self.read(move |reader, caller| {
            Ok(filters.iter().map(|filter| reader.overview(caller.tenant, filter)).collect())
        })
        .await
    }

    /// Counts of all namespaces.
    pub(crate) async fn counts(&self) -> ApiResult<Counts> {
        self.check_unrestricted()?;
        self.read(|reader, caller| Ok(reader.counts(caller.tenant))).await
    }

    /// Usage of the present calendar month, and the month (see `Timestamp::month`).
    pub(crate) async fn usage(&self) -> ApiResult<(Usage, u32)> {
        self.read(|reader, caller| {
            let month = reader.position().clock.month();
            Ok((reader.usage(caller.tenant, month)?, month))
        })
        .await
    }

    /// Recalls of all namespaces.
    pub(crate) async fn recall_stats(&self) -> ApiResult<RecallStats> {
        self.check_unrestricted()?;
        self.read(|reader, caller| reader.recall_stats(caller.tenant)).await
    }

    pub(crate) async fn summary(&self) -> ApiResult<Summary> {
        self.read(|reader: &Reader, caller| {
            let tenant = caller.tenant;
            let overview = reader.overview(tenant, &Filter::default());
            let hottest = HotRequest { limit: 1, ..HotRequest::default() };
            Ok(Summary {
                edges: reader.counts(tenant).edges,
                hottest: reader.hottest(tenant, &hottest)?.into_iter().next(),
                coldest: overview.coldest.map(|id| reader.get(tenant, id)).transpose()?.flatten(),
                usage: reader.usage(tenant, reader.position().clock.month())?,
                tick: reader.tick(tenant)?,
                overview,
            })
        })
        .await
    }
}
