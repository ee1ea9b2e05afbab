//! [`CheckpointSaverHook`]: saves the model while training goes on.

use std::sync::Arc;

use tensorfleet_core::{Result, Status, notice};

use super::step::{due_step, global_step_or, not_begun, step_now};
use super::timer::{Every, Timer};
use crate::coordinator::Coordinator;
use crate::graph::{Graph, Output};
use crate::session::Session;
use crate::summary::{FileWriter, SessionStatus};
use crate::train::checkpoint_state::{checkpoint_exists, newest_complete};
use crate::train::graph_pbtxt::write_graph;
use crate::train::meta_graph;
use crate::train::saver::Saver;
use crate::train::scaffold::Scaffold;
use crate::train::session_hook::{RunArgs, RunContext, RunValues, SessionHook};

/// The name of checkpoints, before the step.
const CHECKPOINT_BASENAME: &str = "model.ckpt";

/// Something that happens around the saves of a [`CheckpointSaverHook`], which has an example.
pub trait CheckpointSaverListener: Send {
    /// Called once, before there is a session.
    fn begin(&mut self) -> Result<()> {
        Ok(())
    }

    /// Called before a save.
    fn before_save(&mut self, session: &Arc<Session>, global_step: i64) -> Result<()> {
        let _ = (session, global_step);
        Ok(())
    }

    /// Called after a save; `true` ends the training loop.
    fn after_save(&mut self, session: &Arc<Session>, global_step: i64) -> Result<bool> {
        let _ = (session, global_step);
        Ok(false)
    }

    /// Called when the session ends without an error.
    fn end(&mut self, session: &Arc<Session>, global_step: i64) -> Result<()> {
        let _ = (session, global_step);
        Ok(())
    }
}

/// Saves the model every so many steps or seconds, when a session begins and when it ends.
///
/// A save that fails is the error of the run it followed. Earlier checkpoints are as they were; a program that goes on
/// has the next run save again. A session that was restored from a checkpoint of its step is not saved
/// again when it begins, as TensorFlow does: rewriting the files of the only good checkpoint would put it at risk.
///
/// ```
/// use tensorfleet::train::{
///     CheckpointSaverHook, CheckpointSaverListener, ChiefSessionCreator, Every, MonitoredSession, Saver,
///     latest_checkpoint,
/// };
/// use std::sync::Arc;
/// use tensorfleet::{Graph, Result, Session};
/// # let directory = tempfile::tempdir().unwrap();
/// # let dir = directory.path().to_str().unwrap();
///
/// /// Ends training with the first checkpoint from step 4 on.
/// struct UntilFour;
///
/// impl CheckpointSaverListener for UntilFour {
///     fn after_save(&mut self, _: &Arc<Session>, global_step: i64) -> Result<bool> {
///         Ok(global_step >= 4)
///     }
/// }
///
/// let g = Graph::new();
/// let train = g.get_or_create_global_step()?.assign_add(1i64)?;
/// let saver = Saver::new(&g)?;
/// let hook = CheckpointSaverHook::new(dir, Every::Steps(2), &saver)?.listener(UntilFour);
/// let mut session = MonitoredSession::new(ChiefSessionCreator::new(&g), vec![Box::new(hook)])?;
/// while !session.should_stop() {
///     session.run(&train)?;
/// }
/// session.close()?;
/// assert_eq!(latest_checkpoint(dir)?, Some(format!("{dir}/model.ckpt-4")));
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub struct CheckpointSaverHook {
    checkpoint_dir: String,
    save_path: String,
    timer: Timer,
    saver: SaverSource,
    listeners: Vec<Box<dyn CheckpointSaverListener>>,
    writer: Option<FileWriter>,
    global_step: Option<Output>,
    has_written_graph: bool,
}

enum SaverSource {
    Saver(Saver),
    Scaffold(Scaffold),
    By(Box<dyn Fn() -> Result<Saver> + Send>),
}

impl CheckpointSaverHook {
    /// Saves with `saver` into `checkpoint_dir`.
    pub fn new(checkpoint_dir: &str, every: Every, saver: &Saver) -> Result<CheckpointSaverHook> {
        CheckpointSaverHook::from_source(checkpoint_dir, every, SaverSource::Saver(saver.clone()))
    }

    /// Saves with the saver of a scaffold.
    pub fn with_scaffold(
        checkpoint_dir: &str,
        every: Every,
        scaffold: &Scaffold,
    ) -> Result<CheckpointSaverHook> {
        CheckpointSaverHook::from_source(checkpoint_dir, every, SaverSource::Scaffold(scaffold.clone()))
    }

    /// Saves with the saver that a function gives, which is asked when there is a session.
    pub fn with_saver_by(
        checkpoint_dir: &str,
        every: Every,
        saver: impl Fn() -> Result<Saver> + Send + 'static,
    ) -> Result<CheckpointSaverHook> {
        CheckpointSaverHook::from_source(checkpoint_dir, every, SaverSource::By(Box::new(saver)))
    }

    fn from_source(checkpoint_dir: &str, every: Every, saver: SaverSource) -> Result<CheckpointSaverHook> {
        Ok(CheckpointSaverHook {
            checkpoint_dir: checkpoint_dir.to_string(),
            save_path: format!("{}/{CHECKPOINT_BASENAME}", checkpoint_dir.trim_end_matches('/')),
            timer: Timer::new(every.check("CheckpointSaverHook")?),
            saver,
            listeners: Vec::new(),
            writer: None,
            global_step: None,
            has_written_graph: false,
        })
    }

    /// Calls checkpoints otherwise than `model.ckpt-STEP`.
    pub fn checkpoint_basename(mut self, name: &str) -> CheckpointSaverHook {
        self.save_path = format!("{}/{name}", self.checkpoint_dir.trim_end_matches('/'));
        self
    }

    /// Calls `listener` around saves.
    pub fn listener(mut self, listener: impl CheckpointSaverListener + 'static) -> CheckpointSaverHook {
        self.listeners.push(Box::new(listener));
        self
    }

    /// Reads this instead of the graph's global step.
    pub fn global_step(mut self, step: &Output) -> CheckpointSaverHook {
        self.global_step = Some(step.clone());
        self
    }

    fn step(&self) -> Result<&Output> {
        self.global_step.as_ref().ok_or_else(|| not_begun("CheckpointSaverHook"))
    }

    fn writer(&self) -> Result<&FileWriter> {
        self.writer.as_ref().ok_or_else(|| not_begun("CheckpointSaverHook"))
    }

    fn saver(&self) -> Result<Saver> {
        let saver = match &self.saver {
            SaverSource::Saver(saver) => Some(saver.clone()),
            SaverSource::Scaffold(scaffold) => scaffold.get_saver(),
            SaverSource::By(saver) => Some(saver()?),
        };
        saver.ok_or_else(|| {
            Status::failed_precondition(
                "there is nothing to save: the graph has no variables, and no saver was given",
            )
        })
    }

    /// Saves; whether a listener wants training to end.
    fn save(&mut self, session: &Arc<Session>, step: i64) -> Result<bool> {
        self.listeners.iter_mut().try_for_each(|listener| listener.before_save(session, step))?;
        self.saver()?.save(session, &self.save_path, Some(step))?;
        notice::info(format!("Saving checkpoints for {step} into {}.", self.save_path));
        self.timer.act(step);
        self.writer()?.add_session_log(SessionStatus::Checkpoint, &self.save_path, step)?;
        let mut ends = false;
        for listener in &mut self.listeners {
            ends |= listener.after_save(session, step)?;
        }
        Ok(ends)
    }

    fn is_saved(&self, step: i64) -> Result<bool> {
        let path = format!("{}-{step}", self.save_path);
        // One that was restored may be older than the newest, which may be damaged in a way that only reading it shows.
        let is_whole = self.saver()?.has_restored(&path)
            || newest_complete(&self.checkpoint_dir)?.is_some_and(|newest| newest == path);
        Ok(is_whole && checkpoint_exists(&path))
    }
}

impl SessionHook for CheckpointSaverHook {
    fn begin(&mut self, graph: &Graph) -> Result<()> {
        self.global_step = Some(global_step_or(self.global_step.take(), graph, "CheckpointSaverHook")?);
        self.writer = Some(FileWriter::shared(&self.checkpoint_dir)?);
        self.listeners.iter_mut().try_for_each(|listener| listener.begin())
    }

    fn after_create_session(&mut self, session: &Arc<Session>, _: &Coordinator) -> Result<()> {
        if !self.has_written_graph {
            write_graph(session.graph(), &self.checkpoint_dir, "graph.pbtxt")?;
            self.writer()?.add_graph(session.graph())?;
            let saver = self.saver()?;
            let def = meta_graph::with_shapes(session.graph(), Some(saver.saver_def()))?;
            self.writer()?.add_meta_graph(&def, 0)?;
            self.has_written_graph = true;
        }
        let step = step_now(session, self.step()?)?;
        if self.is_saved(step)? {
            self.timer.act(step);
            return Ok(());
        }
        self.save(session, step).map(|_| ())
    }

    fn before_run(&mut self, _: &RunContext) -> Result<RunArgs> {
        Ok(RunArgs::new().fetch(self.step()?))
    }

    fn after_run(&mut self, context: &RunContext, values: &RunValues) -> Result<()> {
        let Some(step) = due_step(&self.timer, context, values, self.step()?)? else { return Ok(()) };
        if self.save(context.session(), step)? {
            context.request_stop();
        }
        Ok(())
    }

    fn end(&mut self, session: &Arc<Session>) -> Result<()> {
        let step = step_now(session, self.step()?)?;
        if self.timer.last_step() != Some(step) {
            self.save(session, step)?;
        }
        self.listeners.iter_mut().try_for_each(|listener| listener.end(session, step))
    }
}
