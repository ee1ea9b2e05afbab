//! Training under `MonitoredTrainingSession` while processes are killed: it always reaches its last step, from the newest
//! complete checkpoint.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::time::Duration;

use tensorfleet::checkpoint::CheckpointReader;
use tensorfleet::train::{get_checkpoint_state, latest_checkpoint};
use tensorfleet_tests::lossy_proxy::LossyProxy;
use tensorfleet_tests::stuck::eventually;
use tensorfleet_tests::trainer::{Hosts, ParameterServer, Trainer, ready};

const SAVE_STEPS: i64 = 50;

fn flags(dir: &str, last_step: i64) -> Vec<String> {
    vec![
        format!("--checkpoint_dir={dir}"),
        format!("--save_checkpoint_steps={SAVE_STEPS}"),
        format!("--last_step={last_step}"),
    ]
}

/// The step of the newest complete checkpoint.
fn newest_step(dir: &str) -> i64 {
    let newest = latest_checkpoint(dir).unwrap();
    newest.and_then(|path| path.rsplit_once('-')?.1.parse().ok()).unwrap_or(0)
}

/// All checkpoints that the state file names are whole, and their parts belong together.
#[track_caller]
fn assert_checkpoints_are_whole(dir: &str) {
    let state = get_checkpoint_state(dir).unwrap().unwrap();
    assert!(!state.all_model_checkpoint_paths.is_empty());
    for path in &state.all_model_checkpoint_paths {
        let reader = CheckpointReader::open(path).unwrap();
        reader.verify().unwrap();
        let step = reader.tensor("global_step").unwrap().to_scalar::<i64>().unwrap();
        let weight = reader.tensor("weight").unwrap();
        assert!(weight.as_slice::<f32>().unwrap().iter().all(|&number| number == step as f32), "{path}");
    }
}

/// Numbers that look random and are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % limit) as i64
    }
}

#[test]
fn a_ps_that_is_killed_twenty_times_costs_at_most_the_steps_since_the_newest_checkpoint() {
    const KILLS: usize = 20;
    /// More than all the permissions before add up to.
    const LAST_STEP: i64 = 3000;
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().to_str().unwrap();
    let hosts = Hosts::new(1, 1).unwrap();
    let mut ps = ParameterServer::start(&hosts, 0).unwrap();
    let mut trainer = Trainer::start(&hosts, 0, &flags(dir, LAST_STEP)).unwrap();
    assert_eq!(trainer.wait_until_ready().unwrap(), (0, 0));
    let mut random = Random(7);
    let mut step = 0;
    for _ in 0..KILLS {
        let moment = step + 1 + random.below(80);
        trainer.allow(moment + 20).unwrap();
        trainer.wait_for_step(moment).unwrap();
        let saved = newest_step(dir);
        ps.kill();
        // It may have used up its permission before, and could not notice the loss.
        trainer.allow(moment + 40).unwrap();
        let newest = newest_step(dir);
        ps.restart().unwrap();
        let (restored, weight) = trainer.wait_until_ready().unwrap();
        assert!(restored >= saved.max(newest), "{restored} is older than {saved} or {newest}");
        assert_eq!(restored, weight, "the parts of the state belong together");
        assert_checkpoints_are_whole(dir);
        step = restored;
    }
    trainer.allow(LAST_STEP).unwrap();
    assert!(trainer.wait_until_done().unwrap() >= LAST_STEP);
    assert!(trainer.wait_for_end().unwrap().success(), "{}", trainer.log());
    assert_eq!(newest_step(dir), LAST_STEP);
    assert_checkpoints_are_whole(dir);
}

#[test]
fn a_killed_chief_resumes_from_its_checkpoint_and_workers_wait_for_it_when_the_model_is_lost() {
    const LAST_STEP: i64 = 400;
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().to_str().unwrap();
    let hosts = Hosts::new(1, 2).unwrap();
    let mut ps = ParameterServer::start(&hosts, 0).unwrap();
    // The worker is there first, and waits.
    let mut worker = Trainer::start(&hosts, 1, &flags(dir, LAST_STEP)).unwrap();
    let mut chief = Trainer::start(&hosts, 0, &flags(dir, LAST_STEP)).unwrap();
    assert_eq!(chief.wait_until_ready().unwrap(), (0, 0));
    worker.wait_until_ready().unwrap();
    chief.allow(SAVE_STEPS + 10).unwrap();
    chief.wait_for_step(SAVE_STEPS + 10).unwrap();
    let saved = newest_step(dir);
    assert!(saved >= SAVE_STEPS, "{saved}");
    chief.kill();
    // Without the chief the worker goes on ...
    worker.allow(SAVE_STEPS + 30).unwrap();
    worker.wait_for_step(SAVE_STEPS + 30).unwrap();
    // ... until the model is gone. Then it says whom it waits for.
    ps.restart().unwrap();
    worker.allow(LAST_STEP).unwrap();
    eventually("a word from the worker", Duration::from_secs(60), || {
        let log = worker.log();
        let expected = "the chief must initialise or restore it";
        if log.contains(expected) && log.contains("Variables not initialized") { Ok(()) } else { Err(log) }
    });
    let mut chief = Trainer::start(&hosts, 0, &flags(dir, LAST_STEP)).unwrap();
    // The worker may make steps as soon as the model is there.
    let (restored, _) = chief.wait_until_ready().unwrap();
    let (resumed, _) = worker.wait_until_ready().unwrap();
    assert!(restored >= saved && resumed >= saved, "{restored} or {resumed} is older than {saved}");
    chief.allow(LAST_STEP).unwrap();
    assert!(chief.wait_until_done().unwrap() >= LAST_STEP);
    assert!(worker.wait_until_done().unwrap() >= LAST_STEP);
    assert!(chief.wait_for_end().unwrap().success() && worker.wait_for_end().unwrap().success());
    assert!(newest_step(dir) >= LAST_STEP);
}

/// Without its chief a worker trains on. What it has done is newer than any checkpoint, and is kept when the chief is back.
#[test]
fn a_chief_that_was_away_keeps_the_living_model() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().to_str().unwrap();
    let hosts = Hosts::new(1, 2).unwrap();
    let mut ps = ParameterServer::start(&hosts, 0).unwrap();
    let mut chief = Trainer::start(&hosts, 0, &flags(dir, 1000)).unwrap();
    let mut worker = Trainer::start(&hosts, 1, &flags(dir, 1000)).unwrap();
    chief.allow(SAVE_STEPS + 10).unwrap();
    chief.wait_for_step(SAVE_STEPS + 10).unwrap();
    let saved = newest_step(dir);
    chief.kill();
    worker.allow(SAVE_STEPS + 200).unwrap();
    let trained = worker.wait_for_step(SAVE_STEPS + 200).unwrap();
    let chief = Trainer::start(&hosts, 0, &flags(dir, 1000)).unwrap();
    let (resumed, weight) = chief.wait_until_ready().unwrap();
    assert!(
        saved < trained && resumed >= trained,
        "{resumed} of {trained} steps are left, {saved} were saved"
    );
    assert_eq!(resumed, weight);
    assert!(chief.log().contains("The living model is kept"), "{}", chief.log());
    // A model that is gone is restored as before.
    chief.kill();
    let saved = newest_step(dir);
    ps.restart().unwrap();
    let chief = Trainer::start(&hosts, 0, &flags(dir, 1000)).unwrap();
    assert_eq!(chief.wait_until_ready().unwrap(), (saved, saved));
}

/// The update is made, the answer is lost, the step is repeated: it counts once.
#[test]
fn a_step_whose_answer_is_lost_is_applied_once() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().to_str().unwrap();
    let hosts = Hosts::new(1, 1).unwrap();
    let known = hosts.ps(0).unwrap();
    let real = tensorfleet_tests::cluster::free_addresses(1).unwrap()[0];
    let proxy = LossyProxy::start(known, real).unwrap();
    let _ps = ParameterServer::start_with(&hosts, 0, &[&format!("--bind={real}")]).unwrap();
    let mut trainer = Trainer::start(&hosts, 0, &flags(dir, 1000)).unwrap();
    assert_eq!(trainer.wait_until_ready().unwrap(), (0, 0));
    let mut step = 10;
    trainer.allow(step).unwrap();
    trainer.wait_for_step(step).unwrap();
    for _ in 0..5 {
        proxy.lose_answers();
        let before = proxy.lost_bytes();
        step += 1;
        trainer.allow(step).unwrap();
        let mut lost = before;
        eventually("the answer of the parameter server", Duration::from_secs(30), || {
            let (earlier, now) = (lost, proxy.lost_bytes());
            lost = now;
            // All of it: nothing more comes for a while.
            std::thread::sleep(Duration::from_millis(300));
            if now > before && now == earlier { Ok(()) } else { Err(format!("{now} bytes")) }
        });
        proxy.break_connections();
        let (living, weight) = trainer.wait_until_ready().unwrap();
        // The count waits for a word of the worker that the update is made, so it may be still to come.
        assert_eq!(weight, step, "the update was made");
        assert!(living == step || living == step - 1, "{living}");
        assert_eq!(trainer.wait_for_step(0).unwrap(), step, "the repeated step makes what is left");
    }
    // The connection breaks at any moment: what was not written is, what was is not written again.
    for moment in 0..10 {
        step += 1;
        trainer.allow(step).unwrap();
        std::thread::sleep(Duration::from_micros(150 * moment));
        proxy.break_connections();
        assert_eq!(trainer.wait_for_step(0).unwrap(), step);
    }
    trainer.allow(step + 5).unwrap();
    trainer.wait_for_step(step + 5).unwrap();
    trainer.kill();
    let trainer = Trainer::start(&hosts, 0, &flags(dir, 1000)).unwrap();
    assert_eq!(trainer.wait_until_ready().unwrap(), (step + 5, step + 5));
}

#[test]
fn a_killed_worker_holds_nobody_up_and_joins_again() {
    const LAST_STEP: i64 = 300;
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().to_str().unwrap();
    let hosts = Hosts::new(1, 2).unwrap();
    let _ps = ParameterServer::start(&hosts, 0).unwrap();
    let mut chief = Trainer::start(&hosts, 0, &flags(dir, LAST_STEP)).unwrap();
    let mut worker = Trainer::start(&hosts, 1, &flags(dir, LAST_STEP)).unwrap();
    chief.wait_until_ready().unwrap();
    worker.wait_until_ready().unwrap();
    worker.allow(40).unwrap();
    worker.wait_for_step(10).unwrap();
    worker.kill();
    chief.allow(120).unwrap();
    chief.wait_for_step(120).unwrap();
    let mut worker = Trainer::start(&hosts, 1, &flags(dir, LAST_STEP)).unwrap();
    let (joined, _) = worker.wait_until_ready().unwrap();
    assert!(joined >= 120, "it joins where training is, not at {joined}");
    worker.allow(LAST_STEP).unwrap();
    worker.wait_for_step(joined + 1).unwrap();
    chief.allow(LAST_STEP).unwrap();
    assert!(chief.wait_until_done().unwrap() >= LAST_STEP);
    assert!(worker.wait_until_done().unwrap() >= LAST_STEP);
    assert!(!chief.log().contains("task of the cluster was lost"), "{}", chief.log());
}

#[test]
fn a_full_disk_fails_the_save_and_nothing_else() {
    const LAST_STEP: i64 = 200;
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().to_str().unwrap();
    let mut all = flags(dir, LAST_STEP);
    all.push("--keep_going".to_string());
    let mut trainer = Trainer::start_on_small_disk(dir, 1 << 20, &all).unwrap();
    assert_eq!(trainer.wait_until_ready().unwrap(), (0, 0));
    trainer.allow(SAVE_STEPS).unwrap();
    trainer.wait_for_step(SAVE_STEPS).unwrap();
    let seen = trainer.file(dir);
    assert_eq!(saved_steps(&seen), [0, SAVE_STEPS]);

    // Whatever room is left goes to something else.
    let ballast = format!("{seen}/ballast");
    let mut file = std::fs::File::create(&ballast).unwrap();
    while file.write(&[0; 4096]).is_ok_and(|written| written > 0) {}
    trainer.allow(2 * SAVE_STEPS).unwrap();
    let code = trainer.wait_for(|line| line.strip_prefix("failed ").map(str::to_string)).unwrap();
    assert_eq!(code, "RESOURCE_EXHAUSTED", "{}", trainer.log());
    assert_eq!(saved_steps(&seen), [0, SAVE_STEPS], "earlier checkpoints are as they were");
    for step in [0, SAVE_STEPS] {
        CheckpointReader::open(&format!("{seen}/model.ckpt-{step}")).unwrap().verify().unwrap();
    }

    // With room again, the next step saves and training goes on to its end in the same session.
    drop(file);
    std::fs::remove_file(&ballast).unwrap();
    let next = 2 * SAVE_STEPS + 1;
    trainer.allow(next).unwrap();
    trainer.wait_for_step(next).unwrap();
    assert_eq!(saved_steps(&seen), [0, SAVE_STEPS, next]);
    CheckpointReader::open(&format!("{seen}/model.ckpt-{next}")).unwrap().verify().unwrap();
    trainer.allow(LAST_STEP).unwrap();
    let done = trainer.wait_for(|line| {
        assert!(ready(line).is_none(), "no other session was needed");
        line.strip_prefix("done step=")?.parse::<i64>().ok()
    });
    assert_eq!(done.unwrap(), LAST_STEP);
    assert!(trainer.wait_for_end().unwrap().success());
}

/// The steps of the checkpoints that the state file in `dir`, a name of another mount namespace, lists.
fn saved_steps(dir: &str) -> Vec<i64> {
    let state = get_checkpoint_state(dir).unwrap().unwrap();
    let step = |path: &String| path.rsplit_once('-').unwrap().1.parse().unwrap();
    state.all_model_checkpoint_paths.iter().map(step).collect()
}
