//! Budgets: amounts that holders share, such as API keys or source networks. A holder may take a
//! part of a budget only, so that one holder cannot exhaust it. Tenants share requests in progress,
//! bytes of their bodies, bytes of responses that are not sent yet, and event streams; the API keys
//! of a tenant share its part.
//!
//! One host can own a /64 of IPv6, and one customer a /56 or a /48. What one sender may use is therefore
//! limited for each of these networks: more for the larger ones.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use parking_lot::Mutex;
use storage::model::id::{KeyId, TenantId};

use crate::error::{ApiError, ErrorKind};

/// An API key and its tenant.
pub type KeyOfTenant = (TenantId, KeyId);

/// An amount that holders share.
pub struct Budget<H: Copy + Eq + Hash> {
    max: usize,
    /// Most that one holder may take. A holder that has taken nothing may take more.
    holder_max: usize,
    taken: Mutex<Taken<H>>,
}

struct Taken<H> {
    total: usize,
    holders: HashMap<H, usize>,
    rejected: u64,
}

/// What is taken of a budget, and how often it had no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetUse {
    /// The amount that is taken now.
    pub taken: u64,
    /// Takings that were rejected since the start of the process.
    pub rejected: u64,
}

/// Why an amount was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The holder has its part already. Of a [`KeyBudget`], this is the key.
    Holder,
    /// The tenant of the key has its part already.
    Tenant,
    /// All holders together have the whole.
    Node,
}

impl Full {
    /// The error: retry after a second. `what` is shared. Callers without a key have one part
    /// together.
    pub(crate) fn error(self, code: &'static str, what: &str) -> ApiError {
        let (kind, holder) = match self {
            Self::Holder => (ErrorKind::TooMany, "your API key"),
            Self::Tenant => (ErrorKind::TooMany, "your tenant"),
            Self::Node => (ErrorKind::Unavailable, "this node"),
        };
        let error = ApiError::new(kind, code, format!("too many {what} of {holder}"));
        error.retry_after(Duration::from_secs(1))
    }
}

impl<H: Copy + Eq + Hash> Budget<H> {
    /// A budget of `max`, of which one holder may take `holder_max`.
    pub fn new(max: usize, holder_max: usize) -> Arc<Self> {
        let taken = Taken { total: 0, holders: HashMap::new(), rejected: 0 };
        Arc::new(Self { max, holder_max, taken: Mutex::new(taken) })
    }

    /// Takes an amount until the share is dropped.
    ///
    /// # Errors
    /// When the holder or the node has no room for it.
    pub fn take(self: &Arc<Self>, holder: H, amount: usize) -> Result<Share<H>, Full> {
        self.take_below(holder, amount, usize::MAX)
    }

    /// [`Self::take`], where this holder may have `limit` at most, also if it has taken nothing.
    fn take_below(
        self: &Arc<Self>,
        holder: H,
        amount: usize,
        limit: usize,
    ) -> Result<Share<H>, Full> {
        let mut taken = self.taken.lock();
        let of_holder = taken.holders.get(&holder).copied().unwrap_or(0);
        let is_over = of_holder > 0 && of_holder + amount > self.holder_max;
        let is_over = is_over || of_holder.saturating_add(amount) > limit;
        if is_over || taken.total + amount > self.max {
            taken.rejected += 1;
            return Err(if is_over { Full::Holder } else { Full::Node });
        }
        taken.total += amount;
        taken.holders.insert(holder, of_holder + amount);
        drop(taken);
        Ok(Share { budget: Arc::clone(self), holder, amount })
    }

    /// Takes an amount although the budget may be full: what is done cannot be rejected.
    pub(crate) fn take_always(self: &Arc<Self>, holder: H, amount: usize) -> Share<H> {
        let mut taken = self.taken.lock();
        taken.total += amount;
        *taken.holders.entry(holder).or_default() += amount;
        drop(taken);
        Share { budget: Arc::clone(self), holder, amount }
    }

    pub(crate) fn usage(&self) -> BudgetUse {
        let taken = self.taken.lock();
        BudgetUse { taken: taken.total as u64, rejected: taken.rejected }
    }
}

/// A part of a budget, returned when it is dropped.
pub struct Share<H: Copy + Eq + Hash> {
    budget: Arc<Budget<H>>,
    holder: H,
    amount: usize,
}

impl<H: Copy + Eq + Hash> Drop for Share<H> {
    fn drop(&mut self) {
        let mut taken = self.budget.taken.lock();
        taken.total -= self.amount;
        if let Some(of_holder) = taken.holders.get_mut(&self.holder) {
            *of_holder -= self.amount;
            if *of_holder == 0 {
                taken.holders.remove(&self.holder);
            }
        }
    }
}

/// An amount that source networks share. A /56 of IPv6 may take one and a half times as much as a
/// /64, and a /48 twice as much.
pub struct NetworkBudget {
    levels: [Arc<Budget<IpNet>>; LEVELS],
}

/// A part of a [`NetworkBudget`], returned when it is dropped.
pub struct NetworkShare {
    _levels: [Option<Share<IpNet>>; LEVELS],
}

impl NetworkBudget {
    /// A budget of `max`, of which one address of IPv4 or one /64 may take `network_max`.
    pub fn new(max: usize, network_max: usize) -> Self {
        let larger = |part: usize| Budget::new(usize::MAX, network_max.saturating_mul(part) / 2);
        Self { levels: [Budget::new(max, network_max), larger(3), larger(4)] }
    }

    /// Takes 1 for an address until the share is dropped.
    ///
    /// # Errors
    /// When there is no room: the network that has its part already; `None` if all have the whole.
    pub fn take(&self, address: IpAddr) -> Result<NetworkShare, Option<IpNet>> {
        let mut shares = [const { None }; LEVELS];
        for ((budget, network), share) in self.levels.iter().zip(networks(address)).zip(&mut shares)
        {
            let taken = budget.take(network, 1);
            *share = Some(taken.map_err(|full| (full == Full::Holder).then_some(network))?);
        }
        Ok(NetworkShare { _levels: shares })
    }
}

/// An amount that tenants share, and the keys of each tenant. Requests that are not authenticated
/// share one part.
pub struct KeyBudget {
    tenants: Arc<Budget<Option<TenantId>>>,
    keys: Arc<Budget<Option<KeyId>>>,
}

/// A part of a [`KeyBudget`], returned when it is dropped.
pub struct KeyShare {
    _of_tenant: Share<Option<TenantId>>,
    _of_key: Share<Option<KeyId>>,
}

impl KeyBudget {
    /// A budget of `max`: half of it for one tenant, a quarter for one key.
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            tenants: Budget::new(max, max / 2),
            keys: Budget::new(usize::MAX, max / 4),
        })
    }

    /// Takes an amount for a key until the share is dropped.
    ///
    /// # Errors
    /// When the key, its tenant or the node has no room for it.
    pub fn take(&self, holder: Option<KeyOfTenant>, amount: usize) -> Result<KeyShare, Full> {
        self.take_below(holder, amount, usize::MAX)
    }

    /// [`Self::take`], where this tenant may have `limit` at most.
    pub(crate) fn take_below(
        &self,
        holder: Option<KeyOfTenant>,
        amount: usize,
        limit: usize,
    ) -> Result<KeyShare, Full> {
        let (tenant, key) = holder.unzip();
        let of_key = self.keys.take(key, amount)?;
        let of_tenant = self.tenants.take_below(tenant, amount, limit);
        let of_tenant = of_tenant.map_err(|full| match full {
            Full::Holder => Full::Tenant,
            full => full,
        })?;
        Ok(KeyShare { _of_tenant: of_tenant, _of_key: of_key })
    }

    /// Takes an amount although the budget may be full: what is done cannot be rejected.
    pub(crate) fn take_always(&self, holder: Option<KeyOfTenant>, amount: usize) -> KeyShare {
        let (tenant, key) = holder.unzip();
        let of_key = self.keys.take_always(key, amount);
        KeyShare { _of_tenant: self.tenants.take_always(tenant, amount), _of_key: of_key }
    }

    pub(crate) fn usage(&self) -> BudgetUse {
        let (keys, tenants) = (self.keys.usage(), self.tenants.usage());
        BudgetUse { rejected: keys.rejected + tenants.rejected, ..tenants }
    }
}

/// Lengths of the prefixes of IPv6, from that of a host to that of a site.
const PREFIXES: [u8; LEVELS] = [64, 56, 48];
/// Sizes of networks.
pub(crate) const LEVELS: usize = 3;

/// The network of an address: an IPv4 address, or a /64 of IPv6.
pub fn network(address: IpAddr) -> IpAddr {
    of_length(address.to_canonical(), PREFIXES[0]).addr()
}

/// The networks of an address, from the smallest. An IPv4 address has one.
pub(crate) fn networks(address: IpAddr) -> impl Iterator<Item = IpNet> {
    let address = address.to_canonical();
    let levels = if address.is_ipv4() { 1 } else { LEVELS };
    PREFIXES[..levels].iter().map(move |length| of_length(address, *length))
}

fn of_length(address: IpAddr, length: u8) -> IpNet {
    match address {
        // Below the length of every address of IPv6.
        IpAddr::V6(_) => IpNet::new(address, length).unwrap_or(address.into()).trunc(),
        IpAddr::V4(_) => address.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Option<KeyId> = Some(KeyId([1; 8]));
    const TWO: Option<KeyId> = Some(KeyId([2; 8]));

    #[test]
    fn no_holder_takes_more_than_its_part() {
        let budget = Budget::new(10, 4);
        let first = budget.take(ONE, 3).unwrap();
        assert_eq!(budget.take(ONE, 2).err(), Some(Full::Holder));
        let second = budget.take(TWO, 6).expect("a holder that has taken nothing may take more");
        assert_eq!(budget.take(None, 2).err(), Some(Full::Node));
        drop(first);
        assert!(budget.take(ONE, 4).is_ok());
        drop(second);
        let always = budget.take_always(ONE, 20);
        assert_eq!(budget.take(ONE, 1).err(), Some(Full::Holder));
        drop(always);
        assert_eq!(budget.usage(), BudgetUse { taken: 0, rejected: 3 });
        assert!(budget.taken.lock().holders.is_empty(), "nothing is kept for ever");
    }

    #[test]
    fn larger_networks_have_larger_parts() {
        let (budget, mut held) = (NetworkBudget::new(usize::MAX, 4), Vec::new());
        let mut take = |address: &str| {
            let taken = budget.take(address.parse().unwrap());
            taken.map(|share| held.push(share)).err().flatten().map(|full| full.to_string())
        };
        let host = |part: u16| format!("2001:db8:1:{part:x}::1");
        assert_eq!([0; 4].map(|_| take(&host(0x100))), [const { None }; 4]);
        assert_eq!(take(&host(0x100)).unwrap(), "2001:db8:1:100::/64");
        assert_eq!([0; 2].map(|_| take(&host(0x101))), [const { None }; 2]);
        assert_eq!(take(&host(0x101)).unwrap(), "2001:db8:1:100::/56");
        assert_eq!([0; 2].map(|_| take(&host(0x200))), [const { None }; 2]);
        assert_eq!(take(&host(0x200)).unwrap(), "2001:db8:1::/48");
        assert_eq!([0; 4].map(|_| take("192.0.2.1")), [const { None }; 4]);
        assert_eq!(take("192.0.2.1").unwrap(), "192.0.2.1/32");
        held.clear();
        assert!(budget.take(host(0x200).parse().unwrap()).is_ok());
        let whole = NetworkBudget::new(1, 4);
        let _share = whole.take("192.0.2.1".parse().unwrap()).ok();
        assert_eq!(whole.take("192.0.2.2".parse().unwrap()).err(), Some(None));
    }

    #[test]
    fn no_tenant_takes_more_than_half() {
        let key = |tenant, key| Some((TenantId(tenant), KeyId([key; 8])));
        let budget = KeyBudget::new(16);
        let held = [1, 2].map(|of| budget.take(key(1, of), 4).unwrap());
        assert_eq!(budget.take(key(1, 2), 1).err(), Some(Full::Holder));
        assert_eq!(budget.take(key(1, 3), 1).err(), Some(Full::Tenant), "half is its part");
        let other = budget.take(key(2, 4), 4).expect("another tenant has room");
        assert_eq!(budget.usage(), BudgetUse { taken: 12, rejected: 2 });
        drop((held, other));
        assert_eq!(budget.take_below(key(3, 5), 1, 0).err(), Some(Full::Tenant), "no room at all");
        let one = budget.take_below(key(3, 5), 1, 1).unwrap();
        assert_eq!(budget.take_below(key(3, 6), 1, 1).err(), Some(Full::Tenant));
        drop(one);
        assert_eq!(budget.usage().taken, 0);
    }

    #[test]
    fn one_host_has_one_network() {
        for (address, expected) in [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("2001:db8:1:2::", "2001:db8:1:2::"),
            ("2001:db8:1:3::1", "2001:db8:1:3::"),
            ("::1", "::"),
        ] {
            assert_eq!(network(address.parse().unwrap()).to_string(), expected, "{address}");
        }
    }

    #[test]
    fn addresses_of_ipv6_have_larger_networks() {
        let all = |address: &str| networks(address.parse().unwrap()).map(|it| it.to_string());
        let of_ipv6: Vec<_> = all("2001:db8:1:2345:3::1").collect();
        assert_eq!(of_ipv6, ["2001:db8:1:2345::/64", "2001:db8:1:2300::/56", "2001:db8:1::/48"]);
        assert_eq!(all("::ffff:192.0.2.7").collect::<Vec<_>>(), ["192.0.2.7/32"]);
    }
}
