//! Callers share a budget: what each gets, what is refused, and what waits.

use super::*;

#[test]
fn one_caller_gets_two_thirds_and_the_next_ones_still_find_room() {
    let budget = Budget::new(900);
    let accounts = ["a", "b", "c", "d"].map(|name| budget.account(name));
    let alone = accounts[0].try_reserve(600).unwrap();
    assert!(accounts[0].try_reserve(1).is_err());
    assert!(accounts[1].try_reserve(200).is_ok());
    drop(alone);

    let held: Vec<_> = accounts
        .iter()
        .map(|account| account.try_reserve(200).unwrap())
        .collect();
    assert!(accounts[0].try_reserve(1).is_err(), "its share is used up");
    assert!(budget.account("fifth").try_reserve(60).is_ok());
    drop(held);
    assert_eq!(budget.used(), 0);
}

#[test]
fn something_to_do_without_takes_half_of_a_share() {
    let budget = Budget::new(900);
    let account = budget.account("a");
    let mut spare = account.take(0);
    assert!(spare.grow_if_spare(450));
    assert!(!spare.grow_if_spare(1));
    assert_eq!((spare.bytes(), budget.used()), (450, 450));
    assert!(account.try_reserve(150).is_ok());
}

#[test]
fn who_took_its_share_is_not_over_because_others_came() {
    let budget = Budget::new(96 << 20);
    let (first, others) = (budget.account("first"), budget.account("others"));
    let _held: Vec<_> = std::iter::from_fn(|| first.try_reserve(2 << 20).ok()).collect();
    assert!(!first.is_over());
    let _few = others.take(3 << 20);
    assert!(!first.is_over() && !others.is_over());
    // Answers are taken, and never refused; a caller that does not read them is told to wait.
    let _answers = first.take(16 << 20);
    assert!(first.is_over() && !others.is_over());
}

#[test]
fn a_long_answer_has_to_fit_and_a_short_one_is_taken() {
    let budget = Budget::new(9 << 20);
    let [deaf, other] = ["deaf", "other"].map(|name| budget.account(name));
    let answers = std::iter::from_fn(|| deaf.take_if_modest(1 << 20).ok());
    let unread: Vec<_> = answers.take(100).collect();
    assert_eq!(unread.len(), 6, "two thirds");
    assert!(other.try_reserve(1 << 20).is_ok());
    assert!(other.take_if_modest(8 << 20).is_err(), "also as the first");
    assert!(other.take_if_modest(CALL_BYTES).is_ok());
    drop(unread);
    assert_eq!(budget.used(), 0);
}

#[test]
fn long_answers_of_many_callers_leave_room_for_the_next_one() {
    let budget = Budget::of_memory(64 << 20);
    let long = 15 << 20;
    let callers = (0..40).map(|number| budget.account(&format!("u{number}")));
    let unread: Vec<_> = callers
        .filter_map(|caller| caller.take_if_modest(long).ok())
        .collect();
    assert!(!unread.is_empty() && budget.used() < budget.total());
    assert!(budget.account("bob").try_reserve(4 << 20).is_ok());
    drop(unread);
    assert!(budget.account("alone").take_if_modest(long).is_ok());
}

#[test]
fn accounts_of_one_payer_are_one() {
    let budget = Budget::new(300);
    let held = budget.account("a").try_reserve(200).unwrap();
    assert!(budget.account("a").try_reserve(1).is_err());
    drop(held);
    assert!(budget.account("a").try_reserve(1).is_ok());
}

#[test]
fn bytes_pass_to_a_caller_without_more_room() {
    let budget = Budget::new(9 << 20);
    let mut connection = budget.own_account().take(CALL_BYTES);
    let mut second = budget.own_account().take(CALL_BYTES);
    let _others = budget.own_account().take((9 << 20) - 2 * CALL_BYTES);
    let (new, greedy) = (budget.account("new"), budget.account("greedy"));
    connection.pass_to(&new).expect("it holds nothing else");
    assert_eq!((new.used(), budget.used()), (CALL_BYTES, 9 << 20));

    let held = greedy.take(1 << 20);
    second.pass_to(&greedy).expect_err("more than its share");
    assert_eq!((greedy.used(), budget.used()), (1 << 20, 10 << 20));
    drop((connection, second, held));
    assert_eq!((new.used(), greedy.used()), (0, 0));
}

#[test]
fn what_can_never_fit_is_not_worth_trying_again() {
    let account = Budget::new(900).account("a");
    let never = account.try_reserve(601).unwrap_err();
    assert!(!never.retriable);
    let _held = account.take(600);
    assert!(account.try_reserve(600).unwrap_err().retriable);
}

#[test]
fn bytes_that_hold_a_reservation_give_it_back_with_their_last_slice() {
    let budget = Budget::new(900);
    let bytes = budget.account("a").take(7).hold(b"1234567".to_vec());
    let slice = bytes.slice(2..3);
    drop(bytes);
    assert_eq!(budget.used(), 7);
    drop(slice);
    assert_eq!(budget.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn who_waits_gets_what_others_give_back() {
    let account = Budget::new(900).account("a");
    let held = account.try_reserve(600).unwrap();
    let wait = Duration::from_secs(5);
    assert!(account.reserve(10, wait).await.is_err());
    let (got, ()) = tokio::join!(account.reserve(10, wait), async { drop(held) });
    assert_eq!(got.unwrap().bytes(), 10);
}
