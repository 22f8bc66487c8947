//! The checker of linearizability against another one, against all orders of short histories, and against
//! planted defects.

use fastrand::Rng;
use simulation::history::{
    Counter, CounterOperation, Event, Linearizability, Model, Register, RegisterOperation, Set,
    SetOperation, check,
};
use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{Action, History};
use todc_utils::specifications::Specification;

const BUDGET: usize = 100_000;
const HISTORIES: usize = 20_000;

/// Our models as specifications of the other checker.
macro_rules! specification {
    ($model:ident) => {
        impl Specification for Other<$model> {
            type State = <$model as Model>::State;
            type Operation = <$model as Model>::Operation;

            fn init() -> Self::State {
                $model.initial()
            }

            fn apply(operation: &Self::Operation, state: &Self::State) -> (bool, Self::State) {
                let after = $model.apply(state, operation);
                (after.is_some(), after.unwrap_or_else(|| state.clone()))
            }
        }
    };
}

struct Other<M>(M);

specification!(Register);
specification!(Counter);
specification!(Set);

/// A history of some processes, whose operations have the results that `random` decides: mostly those of
/// one copy, at times others.
fn history<M: Model>(
    model: &M,
    random: &mut Rng,
    operation: impl Fn(&mut Rng, &M::State) -> M::Operation,
) -> Vec<Event<M::Operation>> {
    let (mut state, mut events) = (model.initial(), Vec::new());
    let (count, overlap) = (random.u64(1..9), random.u64(1..6));
    for number in 0..count {
        let operation = operation(random, &state);
        state = model.apply(&state, &operation).unwrap_or(state);
        // Times are distinct: which of two equal ones is first is not defined.
        let called = (number * 10 + random.u64(0..10 * overlap)) * 100 + number * 2;
        let returned = called + 1 + 100 * random.u64(1..10 * overlap + 1);
        events.push(Event { called, returned: Some(returned), operation });
    }
    events
}

fn actions<O: Clone>(events: &[Event<O>]) -> History<O> {
    let mut actions: Vec<(u64, usize, Action<O>)> = Vec::new();
    for (process, event) in events.iter().enumerate() {
        actions.push((event.called, process, Action::Call(event.operation.clone())));
        let returned = event.returned.unwrap();
        actions.push((returned, process, Action::Response(event.operation.clone())));
    }
    actions.sort_by_key(|(at, process, _)| (*at, *process));
    History::from_actions(
        actions.into_iter().map(|(_, process, action)| (process, action)).collect(),
    )
}

/// Whether some order of all operations fits, by trying each.
fn any_order<M: Model>(
    model: &M,
    events: &[Event<M::Operation>],
    state: &M::State,
    left: &[usize],
) -> bool {
    let is_next = |at: usize| {
        left.iter().all(|other| events[*other].returned.is_none_or(|end| events[at].called <= end))
    };
    if left.iter().all(|at| events[*at].returned.is_none()) {
        return true;
    }
    left.iter().copied().filter(|at| is_next(*at)).any(|at| {
        let rest: Vec<usize> = left.iter().copied().filter(|other| *other != at).collect();
        model
            .apply(state, &events[at].operation)
            .is_some_and(|after| any_order(model, events, &after, &rest))
    })
}

fn compare<M>(model: M, operation: impl Fn(&mut Rng, &M::State) -> M::Operation)
where
    M: Model<Operation: Clone>,
    Other<M>: Specification<State = M::State, Operation = M::Operation>,
{
    let random = &mut Rng::with_seed(7);
    let mut counts = [0; 2];
    for _ in 0..HISTORIES {
        let mut events = history(&model, random, &operation);
        let is_linearizable = check(&model, &events, BUDGET) == Linearizability::Holds;
        assert_eq!(is_linearizable, WGLChecker::<Other<M>>::is_linearizable(actions(&events)));
        counts[usize::from(is_linearizable)] += 1;
        // Some responses were lost.
        for event in &mut events {
            event.returned = event.returned.filter(|_| random.u8(0..4) > 0);
        }
        let all: Vec<usize> = (0..events.len()).collect();
        let expected = any_order(&model, &events, &model.initial(), &all);
        let found = check(&model, &events, BUDGET);
        assert_eq!(found == Linearizability::Holds, expected);
    }
    assert!(counts.iter().all(|count| *count > HISTORIES / 20), "{counts:?}");
}

#[test]
fn registers_agree_with_another_checker() {
    compare(Register, |random, state| match random.u8(0..4) {
        0 | 1 => RegisterOperation::Write(random.u64(0..3)),
        2 => RegisterOperation::Read(*state),
        _ => RegisterOperation::Read(Some(random.u64(0..3))),
    });
}

#[test]
fn counters_agree_with_another_checker() {
    compare(Counter, |random, state| match random.u8(0..3) {
        0 => CounterOperation::Add(random.u64(1..3)),
        1 => CounterOperation::Read(*state),
        _ => CounterOperation::Read(random.u64(0..4)),
    });
}

#[test]
fn sets_agree_with_another_checker() {
    compare(Set, |random, state| match random.u8(0..5) {
        0 | 1 => SetOperation::Add(random.u64(0..3)),
        2 => SetOperation::Remove(random.u64(0..3)),
        3 => SetOperation::Read(state.clone()),
        _ => SetOperation::Read((0..3).filter(|_| random.bool()).collect()),
    });
}

fn event<O>(called: u64, returned: impl Into<Option<u64>>, operation: O) -> Event<O> {
    Event { called, returned: returned.into(), operation }
}

#[test]
fn planted_defects_are_violations() {
    use RegisterOperation::{Read, Write};
    let stale = [event(0, 1, Write(1)), event(2, 3, Write(2)), event(4, 5, Read(Some(1)))];
    let back = [event(0, 9, Write(1)), event(1, 2, Read(Some(1))), event(3, 4, Read(None))];
    let lost = [event(0, 1, Write(1)), event(2, 3, Read(None))];
    let invented = [event(0, 1, Write(1)), event(0, 1, Read(Some(2)))];
    for history in [&stale[..], &back, &lost, &invented] {
        assert_eq!(check(&Register, history, BUDGET), Linearizability::Broken, "{history:?}");
    }
    let twice = [
        event(0, 1, CounterOperation::Add(1)),
        event(2, None, CounterOperation::Add(1)),
        event(3, 4, CounterOperation::Read(3)),
    ];
    assert_eq!(check(&Counter, &twice, BUDGET), Linearizability::Broken);
    let returns = [
        event(0, 1, SetOperation::Add(7)),
        event(2, 3, SetOperation::Remove(7)),
        event(4, 5, SetOperation::Read([7].into())),
    ];
    assert_eq!(check(&Set, &returns, BUDGET), Linearizability::Broken);
}

/// Sets of operations have several words of bits then.
#[test]
fn defects_late_in_long_histories_are_violations() {
    let random = &mut Rng::with_seed(11);
    for _ in 0..200 {
        let (count, mut state) = (random.u64(70..300), None);
        let mut history: Vec<Event<RegisterOperation>> = Vec::new();
        for number in 0..count {
            let operation = match random.bool() {
                true => RegisterOperation::Write(number),
                false => RegisterOperation::Read(state),
            };
            state = Register.apply(&state, &operation).unwrap();
            // At most three of them overlap.
            history.push(event(10 * number, 10 * number + random.u64(1..30), operation));
        }
        assert_eq!(check(&Register, &history, BUDGET), Linearizability::Holds);
        // Written long before the last one.
        let (at, old) = (10 * count + 40, random.u64(0..count / 2));
        history.push(event(at, at + 1, RegisterOperation::Write(count)));
        history.push(event(at + 2, at + 3, RegisterOperation::Read(Some(old))));
        assert_eq!(check(&Register, &history, BUDGET), Linearizability::Broken);
    }
}

#[test]
fn operations_without_a_response_happen_late_or_never() {
    use RegisterOperation::{Read, Write};
    for seen in [None, Some(1)] {
        let history = [event(0, None, Write(1)), event(5, 6, Read(None)), event(7, 8, Read(seen))];
        assert_eq!(check(&Register, &history, BUDGET), Linearizability::Holds);
    }
}

#[test]
fn search_ends_at_its_budget() {
    // Many additions at once, of whose sum the read lacks one.
    let mut history: Vec<_> =
        (0..20).map(|bit| event(0, 100, CounterOperation::Add(1 << bit))).collect();
    history.push(event(200, 201, CounterOperation::Read((1 << 20) - 2)));
    assert_eq!(check(&Counter, &history, 1_000), Linearizability::Undecided);
}
