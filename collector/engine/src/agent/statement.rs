//! The accounts of those that hold or held a GPU, in the protocol's form, and back.

use phasemeter_meter::accounts::Balance;
use phasemeter_meter::accrual::UtilizedCost;
use phasemeter_meter::gpu::StatedState;
use phasemeter_meter::holder::{AllocationMethod, Container, Holder, HolderAccount};
use phasemeter_meter::holders::{HolderAccounts, Statement};
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::phase::Account;
use phasemeter_meter::price::{Price, Unpriced};
use phasemeter_meter::units::{Nanos, PPM, Timestamp};
use phasemeter_sources::clock::Clock;
use serde::{Deserialize, Serialize};

use super::price::AgentPrice;

/// Maximum time, cost and energy of an account: a century, a billion dollars, and a megawatt over the century. More is
/// not believed.
const MAX_NANOS: u64 = 100 * 366 * 86_400 * 1_000_000_000;
const MAX_NANO_USD: u64 = 1_000_000_000_000_000_000;
const MAX_PICOJOULES: u128 = 1_000_000_000 * 100 * 366 * 86_400 * 1_000_000_000;

/// The accounts of a GPU, as the agent has them.
#[derive(Clone, Debug)]
pub struct GpuStatement {
    /// Where its accounts begin.
    pub from: Timestamp,
    /// The instant up to which all time is in them.
    pub until: Timestamp,
    /// Its price, or why there is none.
    pub price: Result<Price, Unpriced>,
    /// The containers that hold it, and those that did until recently.
    pub holders: Vec<(Container, HolderAccounts)>,
}

/// What the containers of a pod pay of a GPU. Instants are nanoseconds since the machine was booted, by the clock that
/// counts while it is suspended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentStatement {
    /// The UUID of the GPU.
    pub gpu: String,
    /// Where the agent's accounts of it begin.
    pub from_boot_ns: u64,
    /// The instant up to which all time is in them. What is in them does not change any more.
    pub until_boot_ns: u64,
    /// Its price.
    pub price: Option<AgentPrice>,
    /// Why it has none.
    pub unpriced: Option<String>,
    /// The containers that hold it, and those that did until recently.
    pub holders: Vec<AgentHolder>,
}

/// The accounts of a container since it held the GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentHolder {
    namespace: String,
    pod: String,
    uid: Option<String>,
    container: String,
    from_boot_ns: u64,
    /// The end of its last grant.
    to_boot_ns: Option<u64>,
    first_touch_boot_ns: Option<u64>,
    /// What it was granted: its part of the GPU over time.
    granted_ns: u64,
    /// How the GPU was divided.
    methods: Vec<MethodTime>,
    /// Its part of the energy, a decimal number.
    picojoules: String,
    /// Those that are not empty.
    balances: Vec<AgentBalance>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct MethodTime {
    method: String,
    nanoseconds: u64,
}

/// One account of a container, in the time of one phase of the GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct AgentBalance {
    account: String,
    phase: String,
    nanoseconds: u64,
    /// Σ utilization × time in ppm·ns, a decimal number.
    effective: String,
    nano_usd: u64,
    /// Σ utilization × cost in ppm × nano-USD per hour × ns, a decimal number.
    utilized: String,
}

impl AgentStatement {
    /// The statement of a GPU with this UUID.
    pub(super) fn of(gpu: String, statement: &GpuStatement, clock: &Clock) -> Self {
        let boot = |at| clock.boot_at(at).0;
        let price = statement.price.as_ref();
        let holders = statement.holders.iter();
        Self {
            gpu,
            from_boot_ns: boot(statement.from),
            until_boot_ns: boot(statement.until),
            price: price.ok().map(AgentPrice::from),
            unpriced: price.err().map(ToString::to_string),
            holders: holders.map(|(of, accounts)| AgentHolder::of(of, accounts, clock)).collect(),
        }
    }

    /// In the time of a run; `None` if anything in it is invalid.
    #[must_use]
    pub fn state(&self, clock: &Clock) -> Option<StatedState> {
        let at = |boot| clock.at_boot(Nanos(boot));
        let mut holders = Statement::default();
        for holder in &self.holders {
            holders.add(Holder::Container(holder.container()), &holder.accounts(clock)?);
        }
        let (from, until) = (at(self.from_boot_ns), at(self.until_boot_ns));
        Some(StatedState { meter: self.from_boot_ns, from, until, holders })
    }
}

impl AgentHolder {
    fn of(of: &Container, accounts: &HolderAccounts, clock: &Clock) -> Self {
        let boot = |at| clock.boot_at(at).0;
        let all = HolderAccount::ALL.into_iter();
        let all = all.flat_map(|of| Account::ALL.map(|phase| (of, phase)));
        let all = all.map(|(of, phase)| (of, phase, accounts.balance(of, phase)));
        let balances = all.filter(|(.., balance)| *balance != Balance::default());
        let methods = accounts.methods();
        Self {
            namespace: of.namespace.clone(),
            pod: of.pod.clone(),
            uid: of.uid.clone(),
            container: of.container.clone(),
            from_boot_ns: boot(accounts.from()),
            to_boot_ns: accounts.to().map(boot),
            first_touch_boot_ns: accounts.first_touch().map(boot),
            granted_ns: accounts.granted().0,
            methods: methods
                .map(|(method, time)| MethodTime {
                    method: method.name().to_owned(),
                    nanoseconds: time.0,
                })
                .collect(),
            picojoules: accounts.picojoules().to_string(),
            balances: balances
                .map(|(of, phase, balance)| AgentBalance {
                    account: of.name().to_owned(),
                    phase: phase.name().to_owned(),
                    nanoseconds: balance.time.0,
                    effective: balance.weighted.to_string(),
                    nano_usd: u64::try_from(balance.cost.0).unwrap_or(u64::MAX),
                    utilized: balance.utilized().exact().to_string(),
                })
                .collect(),
        }
    }

    /// The container.
    pub(super) fn container(&self) -> Container {
        Container {
            namespace: self.namespace.clone(),
            pod: self.pod.clone(),
            uid: self.uid.clone(),
            container: self.container.clone(),
        }
    }

    fn accounts(&self, clock: &Clock) -> Option<HolderAccounts> {
        let at = |boot| clock.at_boot(Nanos(boot));
        let mut accounts = HolderAccounts::new(at(self.from_boot_ns));
        accounts.set_bounds(self.to_boot_ns.map(at), self.first_touch_boot_ns.map(at));
        accounts.add_granted(time(self.granted_ns)?);
        for MethodTime { method, nanoseconds } in &self.methods {
            let method = AllocationMethod::ALL.into_iter().find(|it| it.name() == method)?;
            accounts.add_method(method, time(*nanoseconds)?);
        }
        let picojoules = self.picojoules.parse().ok();
        accounts.add_picojoules(picojoules.filter(|it| *it <= MAX_PICOJOULES)?);
        for balance in &self.balances {
            let of = HolderAccount::ALL.into_iter().find(|it| it.name() == balance.account)?;
            let phase = Account::ALL.into_iter().find(|it| it.name() == balance.phase)?;
            accounts.add(of, phase, balance.balance()?);
        }
        Some(accounts)
    }
}

impl AgentBalance {
    fn balance(&self) -> Option<Balance> {
        let time = time(self.nanoseconds)?;
        let weighted: u128 = self.effective.parse().ok()?;
        let utilized: i128 = self.utilized.parse().ok()?;
        // Of what is rounded, time may have a nanosecond less than its use.
        let is_valid = weighted <= u128::from(MAX_NANOS) * u128::from(PPM)
            && self.nano_usd <= MAX_NANO_USD
            && utilized >= 0;
        let (cost, utilized) = (NanoUsd(self.nano_usd.into()), UtilizedCost::from_exact(utilized));
        is_valid.then(|| Balance::of(time, weighted, cost, utilized))
    }
}

fn time(nanoseconds: u64) -> Option<Nanos> {
    (nanoseconds <= MAX_NANOS).then_some(Nanos(nanoseconds))
}

#[cfg(test)]
mod tests {
    use phasemeter_meter::money::Rate;

    use super::*;

    /// A holder that uses all of its part, whose time was rounded down, and which has more than 64 bits of use and
    /// energy.
    fn statement(clock: &Clock) -> GpuStatement {
        let at = clock.now();
        let mut accounts = HolderAccounts::new(at);
        accounts.set_bounds(None, Some(at));
        accounts.add_granted(Nanos(40_000_000_000_000_000));
        accounts.add_method(AllocationMethod::ByUse, Nanos(7));
        accounts.add_picojoules(u128::from(u64::MAX) * 3);
        let time = Nanos(40_000_000_000_000_000);
        let weighted = u128::from(time.0 + 1) * u128::from(PPM);
        let utilized = UtilizedCost::from_exact(i128::from(u64::MAX) * 5);
        let balance = Balance::of(time, weighted, NanoUsd(17), utilized);
        accounts.add(HolderAccount::Used, Account::ComputeBound, balance);
        let container = Container { pod: "a".to_owned(), ..Container::default() };
        let price = Price::given(Rate::new(7).unwrap(), None, "a test");
        GpuStatement { from: at, until: at, price: Ok(price), holders: vec![(container, accounts)] }
    }

    #[test]
    fn statement_arrives_as_it_was() {
        let clock = Clock::start();
        let stated = statement(&clock);
        let line = serde_json::to_vec(&AgentStatement::of("GPU-0".to_owned(), &stated, &clock));
        let received: AgentStatement = serde_json::from_slice(&line.unwrap()).unwrap();
        let state = received.state(&clock).unwrap();
        let mut expected = Statement::default();
        let (container, accounts) = &stated.holders[0];
        expected.add(Holder::Container(container.clone()), accounts);
        assert_eq!((state.holders, state.from, state.until), (expected, stated.from, stated.until));
        assert_eq!(received.price.unwrap().price(), stated.price.ok());
    }

    /// What cannot be is rejected, and not added up.
    #[test]
    fn invalid_statement_is_rejected() {
        let clock = Clock::start();
        let valid = AgentStatement::of("GPU-0".to_owned(), &statement(&clock), &clock);
        let invalid = |change: &dyn Fn(&mut AgentHolder)| {
            let mut statement = valid.clone();
            change(&mut statement.holders[0]);
            assert_eq!(statement.state(&clock), None, "{statement:?}");
        };
        invalid(&|holder| holder.picojoules = "-1".to_owned());
        invalid(&|holder| holder.picojoules = u128::MAX.to_string());
        invalid(&|holder| holder.granted_ns = u64::MAX);
        invalid(&|holder| holder.methods[0].method = "other".to_owned());
        invalid(&|holder| holder.balances[0].effective = u128::MAX.to_string());
        invalid(&|holder| holder.balances[0].utilized = "-1".to_owned());
        invalid(&|holder| holder.balances[0].nano_usd = u64::MAX);
        invalid(&|holder| holder.balances[0].phase = "other".to_owned());
        invalid(&|holder| holder.balances[0].account = "nobody".to_owned());
    }
}
