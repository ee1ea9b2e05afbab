//! Runs the models, one test each.

/// `file: model, model;` for the models of each file.
macro_rules! models {
    ($($file:ident: $($model:ident),+;)+) => {
        $(mod $file { $(#[test] fn $model() { tensorfleet_models::$file::$model(); })+ })+
    };
}

models! {
    completions:
        a_result_reaches_its_waiter_whenever_it_comes,
        a_result_reaches_a_waiter_that_asks,
        a_reason_to_give_up_reaches_a_waiter_whenever_it_comes;
    executor:
        a_node_runs_once_and_sees_all_its_inputs,
        a_dead_input_is_never_overlooked,
        a_merge_runs_once_with_the_value_that_won,
        a_merge_is_alive_if_one_input_is,
        a_merge_of_dead_inputs_runs_once_and_is_dead,
        a_node_goes_on_once_whoever_is_first;
    loops:
        a_loop_is_done_when_it_returns_whenever_its_helper_comes,
        two_helpers_leave_a_loop_in_any_order,
        the_caller_of_a_short_loop_sleeps_in_the_end,
        a_panic_reaches_the_caller_when_nobody_works_any_more;
    rendezvouses:
        every_value_meets_one_receiver,
        an_abort_answers_every_receiver_once,
        a_receiver_is_withdrawn_or_answered;
}
