//! Clipping: keeps gradients from growing too large.

use tensorfleet_core::{Result, Status};

use crate::graph::{Axes, Gradient, Graph, IndexedSlices, Output};

impl Output {
    /// The value, scaled down where its L2 norm over `axes` is larger than `clip_norm`.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let clipped = g.constant([3.0f32, 4.0]).clip_by_norm(1.0, ..)?;
    /// assert_eq!(Session::new(&g).run(&clipped)?.as_slice::<f32>()?, [0.6, 0.8]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn clip_by_norm(&self, clip_norm: f64, axes: impl Axes) -> Result<Output> {
        let graph = self.graph();
        graph.name_scope("clip_by_norm", || {
            let scope = format!("{}/", graph.current_name_scope());
            let sum = (self * self).check()?.reduce_sum_keep_dims(axes)?;
            // The root of zero has no gradient, so where there is nothing the root of one is taken and not used.
            let is_positive = sum.greater(0.0)?;
            let safe = is_positive.select(&sum, sum.ones_like()?)?;
            let norm = is_positive.select(safe.sqrt()?, &sum)?;
            let scaled = (self * clip_norm).check()?;
            let divisor = norm.maximum(clip_norm)?;
            let clipped = (scaled / divisor).check()?;
            clipped.op("Identity").name(&scope).output()
        })
    }

    /// The value, scaled down if its L2 norm divided by the number of its elements is larger than `clip_norm`.
    pub fn clip_by_average_norm(&self, clip_norm: f64) -> Result<Output> {
        let graph = self.graph();
        graph.name_scope("clip_by_average_norm", || {
            let scope = format!("{}/", graph.current_name_scope());
            let shape = self.shape()?;
            let count = match shape.to_shape() {
                Some(shape) => graph.constant_named("Size", shape.num_elements() as i32),
                None => self.size()?,
            };
            let count = count.cast(self.dtype()?)?;
            let squares = (self * self).check()?;
            let rank = match shape.rank() {
                Some(rank) => graph.constant_named("Rank", rank as i32),
                None => self.rank()?,
            };
            let axes = graph.range(0, rank, 1)?;
            let inverse_norm = squares.reduce_sum(axes)?.rsqrt()?;
            let scaled = (self * clip_norm).check()?;
            let of_average = (inverse_norm * count).check()?;
            let one = graph.literal("Const", 1.0, self.dtype()?)?;
            let factor = of_average.minimum(one / clip_norm)?;
            (scaled * factor).check()?.op("Identity").name(&scope).output()
        })
    }
}

impl Gradient {
    /// The gradient with every element within `low..=high`; of rows, every element of each.
    pub fn clip_by_value(&self, low: f64, high: f64) -> Result<Gradient> {
        self.map(|values| values.clip_by_value(low, high))
    }

    /// The gradient, scaled down if its L2 norm is larger than `clip_norm`. Rows count as they stand, without adding up
    /// those that come several times, as in TensorFlow.
    pub fn clip_by_norm(&self, clip_norm: f64) -> Result<Gradient> {
        self.map(|values| values.clip_by_norm(clip_norm, ..))
    }

    /// The gradient with its values changed.
    pub fn map(&self, change: impl FnOnce(&Output) -> Result<Output>) -> Result<Gradient> {
        Ok(match self {
            Gradient::Dense(values) => Gradient::Dense(change(values)?),
            Gradient::Slices(slices) => {
                Gradient::Slices(IndexedSlices { values: change(&slices.values)?, ..slices.clone() })
            }
        })
    }

    /// The whole tensor, or the rows.
    pub fn values(&self) -> &Output {
        match self {
            Gradient::Dense(values) => values,
            Gradient::Slices(slices) => &slices.values,
        }
    }
}

impl Graph {
    /// The L2 norm of all these gradients as one vector.
    pub fn global_norm<'a>(
        &self,
        gradients: impl IntoIterator<Item = Option<&'a Gradient>>,
    ) -> Result<Output> {
        self.name_scope("global_norm", || {
            let mut halves = Vec::new();
            for gradient in gradients.into_iter().flatten() {
                let values = gradient.values();
                halves.push(self.colocate_with(values, || values.l2_loss())?);
            }
            let first = halves.first().ok_or_else(|| {
                Status::invalid_argument("There are no gradients, so they have no global norm")
            })?;
            let dtype = first.dtype()?;
            // Half the sum of squares is what L2Loss gives.
            let half = self.stack(halves)?.reduce_sum(..)?;
            let sum = (half * self.literal("Const", 2.0, dtype)?).check()?;
            sum.op("Sqrt").name("global_norm").output()
        })
    }

    /// The gradients, all scaled by the same factor if their [`Graph::global_norm`], which comes second, is larger than
    /// `clip_norm`. If that is not finite, all become NaN.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let (x, y) = (g.variable("x", 3.0f32), g.variable("y", 4.0f32));
    /// let loss = x.value() * x.value() + y.value() * y.value();
    /// let gradients = g.gradients([&loss], [&x, &y])?;
    /// let (clipped, norm) = g.clip_by_global_norm(&gradients, 5.0)?;
    /// let session = Session::new(&g);
    /// session.run(g.global_variables_initializer()?)?;
    /// assert_eq!(session.run(&norm)?.to_scalar::<f32>()?, 10.0);
    /// let first = clipped[0].as_ref().unwrap().dense()?;
    /// assert_eq!(session.run(&first)?.to_scalar::<f32>()?, 3.0);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn clip_by_global_norm(
        &self,
        gradients: &[Option<Gradient>],
        clip_norm: f64,
    ) -> Result<(Vec<Option<Gradient>>, Output)> {
        let norm = self.global_norm(gradients.iter().map(Option::as_ref))?;
        self.name_scope("clip_by_global_norm", || {
            let inverse = (1.0 / &norm).check()?;
            let one = self.literal("Const", 1.0, norm.dtype()?)?;
            let smaller = inverse.minimum(one / clip_norm)?;
            let scale = (clip_norm * smaller).check()?;
            // The difference is zero, or NaN where the norm is not finite, so that such gradients do not pass for small.
            let zero_or_nan = norm.op("Sub").input(&norm).name("sub").output()?;
            let scale = (scale + zero_or_nan).check()?;
            let scope = self.current_name_scope();
            let local = scope.rsplit('/').next().unwrap_or(&scope).to_string();
            let mut clipped = Vec::with_capacity(gradients.len());
            for (index, gradient) in gradients.iter().enumerate() {
                let Some(gradient) = gradient else {
                    clipped.push(None);
                    continue;
                };
                let scaled = gradient.map(|values| {
                    self.colocate_with(values, || {
                        let product = (values * &scale).check()?;
                        product.op("Identity").name(&format!("{local}/_{index}")).output()
                    })
                });
                clipped.push(Some(scaled?));
            }
            Ok((clipped, norm.clone()))
        })
    }

    /// A [`Graph::clip_by_global_norm`] of gradients with their variables, as optimizers take them.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// use tensorfleet::train::{GradientDescent, MinimizeOptions, Optimizer};
    ///
    /// let g = Graph::new();
    /// let w = g.variable("w", 100.0f32);
    /// let optimizer = GradientDescent::new(1.0);
    /// let gradients = optimizer.compute_gradients(&w.value().square()?, &MinimizeOptions::default())?;
    /// let train = optimizer.apply_gradients(&g.clip_gradients_by_global_norm(gradients, 2.0)?, None)?;
    /// let session = Session::new(&g);
    /// session.run(w.initializer())?;
    /// session.run(&train)?;
    /// assert_eq!(session.run(&w)?.to_scalar::<f32>()?, 98.0);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn clip_gradients_by_global_norm(
        &self,
        gradients: super::GradientsAndVariables,
        clip_norm: f64,
    ) -> Result<super::GradientsAndVariables> {
        let (gradients, variables): (Vec<_>, Vec<_>) = gradients.into_iter().unzip();
        let (clipped, _) = self.clip_by_global_norm(&gradients, clip_norm)?;
        Ok(clipped.into_iter().zip(variables).collect())
    }
}
