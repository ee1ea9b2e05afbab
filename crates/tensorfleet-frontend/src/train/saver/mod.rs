//! [`Saver`]: writes variables to checkpoints and reads them again.
//!
//! A saver builds nodes that save and restore, with the names TensorFlow gives them; the work is done by whoever runs
//! them, which for a cluster are the tasks that hold the variables. What surrounds a checkpoint is the work of this
//! process: the `.meta` file, the state file and deleting old checkpoints.
//!
//! The order of a save makes a crash harmless at any point: data files, then the index that makes them a checkpoint,
//! then the `.meta` file, then the state file that names it, and only then old checkpoints are deleted. Each is on the
//! disk before the next begins.

mod check;
mod files;
mod nodes;
mod retention;

pub use self::files::remove_checkpoint;

use std::sync::Arc;

use parking_lot::Mutex;
use tensorfleet_core::{Result, Status, ensure};
use tensorfleet_proto::tensorflow::SaverDef;
use tensorfleet_proto::tensorflow::saver_def::CheckpointFormatVersion;

use self::check::Expected;
use self::retention::Retention;
use super::checkpoint_state::{CheckpointState, STATE_FILE, write_state};
use super::meta_graph;
use crate::graph::{Graph, Variable};
use crate::session::Session;

/// TensorFlow's defaults.
const MAX_TO_KEEP: usize = 5;
const KEEP_CHECKPOINT_EVERY_N_HOURS: f32 = 10_000.0;
/// Digits of a padded step number.
const PADDED_DIGITS: usize = 8;

/// Saves and restores variables. Clones are the same saver.
///
/// ```
/// use tensorfleet::{Graph, Session, train::Saver};
///
/// let g = Graph::new();
/// let v = g.variable("v", 1.0f32);
/// let change = v.assign(5.0)?;
/// let saver = Saver::new(&g)?;
/// let directory = tempfile::tempdir().unwrap();
/// let path = directory.path().join("model.ckpt");
///
/// let session = Session::new(&g);
/// session.run(v.initializer())?;
/// let prefix = saver.save(&session, path.to_str().unwrap(), Some(100))?;
/// assert!(prefix.ends_with("model.ckpt-100"));
///
/// session.run(&change)?;
/// saver.restore(&session, &prefix)?;
/// assert_eq!(session.run(&v)?.to_scalar::<f32>()?, 1.0);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Clone)]
pub struct Saver {
    graph: Graph,
    def: SaverDef,
    /// What a restore needs to find, as far as it is known.
    expected: Arc<[Expected]>,
    pad_step_number: bool,
    retention: Arc<Mutex<Retention>>,
}

/// A variable to save, and the name under which it is saved: that of its node unless another is given. See
/// [`SaverBuilder::variables`].
#[derive(Clone, Debug)]
pub struct SavedVariable {
    name: Option<String>,
    variable: Variable,
}

impl From<Variable> for SavedVariable {
    fn from(variable: Variable) -> SavedVariable {
        SavedVariable { name: None, variable }
    }
}

impl From<&Variable> for SavedVariable {
    fn from(variable: &Variable) -> SavedVariable {
        SavedVariable::from(variable.clone())
    }
}

impl<N: Into<String>> From<(N, Variable)> for SavedVariable {
    fn from((name, variable): (N, Variable)) -> SavedVariable {
        SavedVariable { name: Some(name.into()), variable }
    }
}

impl<N: Into<String>> From<(N, &Variable)> for SavedVariable {
    fn from((name, variable): (N, &Variable)) -> SavedVariable {
        SavedVariable::from((name, variable.clone()))
    }
}

/// A saver about to be built; [`Saver::builder`] begins one.
///
/// ```
/// # use tensorfleet::{Graph, train::Saver};
/// # let g = Graph::new();
/// # let v = g.variable("v", 1.0f32);
/// // Each parameter server writes its own variables; the ten newest checkpoints are kept, and one of each hour.
/// let saver = Saver::builder(&g).sharded(true).max_to_keep(10).keep_checkpoint_every_n_hours(1.0).build()?;
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[must_use = "nothing is added to the graph before `build`"]
pub struct SaverBuilder {
    graph: Graph,
    variables: Option<Vec<SavedVariable>>,
    max_to_keep: usize,
    keep_checkpoint_every_n_hours: f32,
    sharded: bool,
    name: String,
    pad_step_number: bool,
    allow_empty: bool,
}

impl SaverBuilder {
    /// The variables to save, instead of all global ones: `Variable`s, or pairs of the name in the checkpoint and the
    /// variable.
    ///
    /// ```
    /// # use tensorfleet::{Graph, train::Saver};
    /// let g = Graph::new();
    /// let (w, b) = (g.variable("w", 1.0f32), g.variable("b", 0.0f32));
    /// let only_w = Saver::builder(&g).variables([&w]).build()?;
    /// let renamed = Saver::builder(&g).variables([("old/w", &w), ("old/b", &b)]).build()?;
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn variables(mut self, variables: impl IntoIterator<Item: Into<SavedVariable>>) -> SaverBuilder {
        self.variables = Some(variables.into_iter().map(Into::into).collect());
        self
    }

    /// How many checkpoints to keep (5 unless said otherwise); 0 keeps all.
    pub fn max_to_keep(mut self, max_to_keep: usize) -> SaverBuilder {
        self.max_to_keep = max_to_keep;
        self
    }

    /// Keeps one checkpoint for each so many hours for ever.
    pub fn keep_checkpoint_every_n_hours(mut self, hours: f32) -> SaverBuilder {
        self.keep_checkpoint_every_n_hours = hours;
        self
    }

    /// Lets every device write its own variables. All tasks must see the same directory.
    pub fn sharded(mut self, sharded: bool) -> SaverBuilder {
        self.sharded = sharded;
        self
    }

    /// The name scope of the saver's nodes, `save` unless said otherwise.
    pub fn name(mut self, name: &str) -> SaverBuilder {
        self.name = name.to_string();
        self
    }

    /// Writes step numbers with eight digits, so that file names sort by step.
    pub fn pad_step_number(mut self, pad: bool) -> SaverBuilder {
        self.pad_step_number = pad;
        self
    }

    /// Allows a saver without variables, which saves and restores nothing.
    pub fn allow_empty(mut self, allow: bool) -> SaverBuilder {
        self.allow_empty = allow;
        self
    }

    /// Builds the saver: adds its nodes to the graph.
    pub fn build(self) -> Result<Saver> {
        let variables = match self.variables {
            Some(variables) => variables,
            None => self.graph.global_variables().into_iter().map(SavedVariable::from).collect(),
        };
        let mut saved = Vec::with_capacity(variables.len());
        for SavedVariable { name, variable } in variables {
            let variable = variable.check()?;
            ensure!(
                variable.graph().is_same(&self.graph),
                InvalidArgument,
                "Variable '{}' is not an element of the saver's graph",
                variable.name()
            );
            let own_name = || match variable.slice_info() {
                Some(slice) => slice.full_name().to_string(),
                None => variable.name(),
            };
            saved.push((name.unwrap_or_else(own_name), variable));
        }
        saved.sort_by(|(a, _), (b, _)| a.cmp(b));
        // Parts of one variable are saved under its name.
        let is_part = |variable: &Variable| variable.slice_info().is_some();
        let collide = |pair: &[(String, Variable)]| {
            pair[0].0 == pair[1].0 && !(is_part(&pair[0].1) && is_part(&pair[1].1))
        };
        if let Some(twice) = saved.windows(2).find(|pair| collide(pair)) {
            return Err(Status::invalid_argument(format!(
                "At least two variables have the same name: {}",
                twice[0].0
            )));
        }
        ensure!(!saved.is_empty() || self.allow_empty, InvalidArgument, "No variables to save");
        let expected: Result<Vec<Expected>> = saved.iter().map(|(name, v)| Expected::of(name, v)).collect();
        let mut def = SaverDef {
            max_to_keep: i32::try_from(self.max_to_keep).unwrap_or(i32::MAX),
            sharded: self.sharded,
            keep_checkpoint_every_n_hours: self.keep_checkpoint_every_n_hours,
            ..Default::default()
        };
        def.set_version(CheckpointFormatVersion::V2);
        if !saved.is_empty() {
            nodes::build(&self.graph, &self.name, &saved, &mut def)?;
        }
        Ok(Saver {
            graph: self.graph,
            retention: Arc::new(Mutex::new(Retention::new(&def))),
            def,
            expected: expected?.into(),
            pad_step_number: self.pad_step_number,
        })
    }
}

/// What else there is to say about a save; see [`Saver::save_with`].
#[derive(Clone, Debug)]
pub struct SaveOptions {
    /// Appended to the path, after a dash.
    pub global_step: Option<i64>,
    /// The name of the state file.
    pub latest_filename: String,
    /// The ending of the file with the graph.
    pub meta_graph_suffix: String,
    /// Whether to write that file.
    pub write_meta_graph: bool,
    /// Whether to write the state file, and to delete old checkpoints.
    pub write_state: bool,
}

impl Default for SaveOptions {
    fn default() -> SaveOptions {
        SaveOptions {
            global_step: None,
            latest_filename: STATE_FILE.to_string(),
            meta_graph_suffix: "meta".to_string(),
            write_meta_graph: true,
            write_state: true,
        }
    }
}

impl Saver {
    /// A saver of all global variables.
    pub fn new(graph: &Graph) -> Result<Saver> {
        Saver::builder(graph).build()
    }

    /// A saver of which more is to be said.
    pub fn builder(graph: &Graph) -> SaverBuilder {
        SaverBuilder {
            graph: graph.clone(),
            variables: None,
            max_to_keep: MAX_TO_KEEP,
            keep_checkpoint_every_n_hours: KEEP_CHECKPOINT_EVERY_N_HOURS,
            sharded: false,
            name: "save".to_string(),
            pad_step_number: false,
            allow_empty: false,
        }
    }

    /// The saver whose nodes `graph` has already, e.g. because it was imported.
    pub fn from_saver_def(graph: &Graph, def: SaverDef) -> Result<Saver> {
        ensure!(
            def.version() == CheckpointFormatVersion::V2,
            Unimplemented,
            "The saver '{}' writes the first format of checkpoints, which TensorFlow 1.0 gave up; save with version V2",
            def.save_tensor_name
        );
        graph.output(&def.filename_tensor_name)?;
        graph.output(&def.save_tensor_name)?;
        graph.operation(&def.restore_op_name)?;
        let expected = check::expected_by(graph, &def)?;
        let retention = Arc::new(Mutex::new(Retention::new(&def)));
        Ok(Saver { graph: graph.clone(), def, expected: expected.into(), pad_step_number: false, retention })
    }

    /// Saves the variables. The checkpoint is called `path`, with `-STEP` appended if there is a step; returns that
    /// prefix. Missing directories are made.
    ///
    /// After an error nothing has changed: the earlier checkpoints and the state file are as they were.
    pub fn save(&self, session: &Session, path: &str, global_step: Option<i64>) -> Result<String> {
        self.save_with(session, path, &SaveOptions { global_step, ..Default::default() })
    }

    /// Saves with options.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session, train::{SaveOptions, Saver, latest_checkpoint}};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let dir = directory.path().to_str().unwrap();
    /// # let g = Graph::new();
    /// # let v = g.variable("v", 1.0f32);
    /// # let session = Session::new(&g);
    /// # session.run(v.initializer())?;
    /// let saver = Saver::new(&g)?;
    /// // Beside the checkpoints that training goes on from: without a graph, and not named as the newest.
    /// let options = SaveOptions { write_meta_graph: false, write_state: false, ..SaveOptions::default() };
    /// let prefix = saver.save_with(&session, &format!("{dir}/best"), &options)?;
    /// assert!(!std::fs::exists(format!("{prefix}.meta")).unwrap());
    /// assert_eq!(latest_checkpoint(dir)?, None);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn save_with(&self, session: &Session, path: &str, options: &SaveOptions) -> Result<String> {
        let name_at = path.rfind('/').map_or(0, |slash| slash + 1);
        let (dir, name) = (path[..name_at].trim_end_matches('/'), &path[name_at..]);
        let dir = if dir.is_empty() && path.starts_with('/') { "/" } else { dir };
        ensure!(!name.is_empty(), InvalidArgument, "a checkpoint needs a file name, got the path '{path}'");
        ensure!(
            options.latest_filename != name,
            InvalidArgument,
            "'latest_filename' collides with 'save_path': both are '{name}'"
        );
        ensure!(
            !options.latest_filename.contains('/'),
            InvalidArgument,
            "'latest_filename' must not contain path components, got '{}'",
            options.latest_filename
        );
        let prefix = match options.global_step {
            None => path.to_string(),
            Some(step) if self.pad_step_number => format!("{path}-{step:0PADDED_DIGITS$}"),
            Some(step) => format!("{path}-{step}"),
        };
        if self.is_empty() {
            return Ok(prefix);
        }
        self.check_session(session)?;
        // One save at a time: the state file tells of all of them.
        let mut retention = self.retention.lock();
        files::create_directory(dir)?;
        let was_there = super::checkpoint_exists(&prefix);
        let saved = self.write(session, dir, &prefix, options, &mut retention);
        if let Err(status) = saved {
            files::remove_partial(&prefix, self.def.sharded);
            if !was_there && !retention.names(&prefix) {
                files::remove_checkpoint(&prefix, &options.meta_graph_suffix);
            }
            return Err(status.context(format!("Checkpoint {prefix} could not be saved")));
        }
        if options.write_state {
            retention.delete_old(dir, &options.latest_filename, &options.meta_graph_suffix);
        }
        Ok(prefix)
    }

    fn write(
        &self,
        session: &Session,
        dir: &str,
        prefix: &str,
        options: &SaveOptions,
        retention: &mut Retention,
    ) -> Result<()> {
        let filename = self.graph.output(&self.def.filename_tensor_name)?;
        let save = self.graph.output(&self.def.save_tensor_name)?;
        session.feed(&filename, prefix).run(&save)?;
        if options.write_meta_graph {
            let path = format!("{prefix}.{}", options.meta_graph_suffix);
            meta_graph::write(&self.graph, Some(&self.def), &path)?;
        }
        if options.write_state {
            let mut next = retention.clone();
            next.record(prefix);
            let all = next.last_checkpoints();
            let state = CheckpointState {
                model_checkpoint_path: prefix.to_string(),
                all_model_checkpoint_paths: all,
                ..Default::default()
            };
            write_state(dir, &options.latest_filename, state)?;
            *retention = next;
        }
        Ok(())
    }

    /// Gives the variables the values they have in the checkpoint with this prefix. Variables need not be initialised
    /// before.
    ///
    /// The names, shapes and dtypes are compared before anything runs, if this process can see the checkpoint; the
    /// checksums while the tasks read it.
    pub fn restore(&self, session: &Session, prefix: &str) -> Result<()> {
        ensure!(!prefix.is_empty(), InvalidArgument, "Can't load a checkpoint without a name");
        if self.is_empty() {
            return Ok(());
        }
        self.check_session(session)?;
        check::fits(prefix, &self.graph, &self.expected)?;
        let filename = self.graph.output(&self.def.filename_tensor_name)?;
        let restore = self.graph.operation(&self.def.restore_op_name)?;
        session
            .feed(&filename, prefix)
            .run(&restore)
            .map_err(|status| status.context(format!("Checkpoint {prefix} could not be restored")))?;
        self.retention.lock().set_restored(prefix);
        Ok(())
    }

    /// Whether the last restore was of this checkpoint.
    pub(crate) fn has_restored(&self, prefix: &str) -> bool {
        self.retention.lock().restored() == Some(prefix)
    }

    fn check_session(&self, session: &Session) -> Result<()> {
        ensure!(
            session.graph().is_same(&self.graph),
            InvalidArgument,
            "The session runs another graph than the one this saver was built for"
        );
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.def.save_tensor_name.is_empty()
    }

    /// The checkpoints this saver has written and not deleted, oldest first.
    pub fn last_checkpoints(&self) -> Vec<String> {
        self.retention.lock().last_checkpoints()
    }

    /// The checkpoints this saver has written and not deleted, oldest first, and when each was made, in seconds since 1970.
    pub fn last_checkpoints_with_time(&self) -> Vec<(String, f64)> {
        self.retention.lock().last_checkpoints_with_time()
    }

    /// Replaces what [`Saver::last_checkpoints_with_time`] gives.
    pub fn set_last_checkpoints_with_time(&self, checkpoints: Vec<(String, f64)>) {
        self.retention.lock().set_last_checkpoints(checkpoints);
    }

    /// Writes step numbers with eight digits, so that file names sort by step.
    pub fn pad_step_number(mut self, pad: bool) -> Saver {
        self.pad_step_number = pad;
        self
    }

    /// Takes over checkpoints of an earlier program, oldest first, so that they are deleted in their turn. Those that do
    /// not exist are left out, and those in another directory than the one that is saved to are never deleted.
    pub fn recover_last_checkpoints(&self, paths: &[String]) {
        self.retention.lock().recover(paths);
    }

    /// The saver as TensorFlow describes it; its node names lead to the nodes.
    pub fn saver_def(&self) -> &SaverDef {
        &self.def
    }

    /// Writes the graph with this saver to `path`, as a save does to `PREFIX.meta`.
    pub fn export_meta_graph(&self, path: &str) -> Result<()> {
        meta_graph::write(&self.graph, (!self.is_empty()).then_some(&self.def), path)
    }
}

impl std::fmt::Debug for Saver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Saver({}, {} variables)", self.def.save_tensor_name, self.expected.len())
    }
}
