//! [`Fetch`]: what a run is asked for, and in which form it answers.

use smallvec::SmallVec;
use tensorfleet_core::{Endpoint, NodeId, Result, Status, Tensor};

use crate::graph::{Graph, Operation, Output, Variable};

/// What [`Session::run`](crate::Session::run) can be asked for. An [`Output`] or [`Variable`] gives its [`Tensor`], an
/// [`Operation`] is run and gives `()`, and tuples, arrays, slices and `Vec`s of these give as many answers. A program may
/// add forms of its own:
///
/// ```
/// use tensorfleet::{Fetch, Graph, Output, Request, Result, Results, Session};
///
/// /// Gives a number instead of a tensor.
/// struct Number(Output);
///
/// impl Fetch for Number {
///     type Value = f32;
///
///     fn request(&self, request: &mut Request<'_>) -> Result<()> {
///         request.fetch(&self.0)
///     }
///
///     fn take(&self, results: &mut Results) -> Result<f32> {
///         results.next_tensor()?.to_scalar()
///     }
/// }
///
/// let g = Graph::new();
/// let two = Number(g.constant(2.0f32));
/// let (number, tensor) = Session::new(&g).run((&two, &two.0))?;
/// assert_eq!((number, tensor.to_scalar::<f32>()?), (2.0, 2.0));
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub trait Fetch {
    /// The form of the answer.
    type Value;

    /// Adds what is asked for to `request`.
    fn request(&self, request: &mut Request<'_>) -> Result<()>;

    /// Takes the answer out of the results, in the order of [`Fetch::request`].
    fn take(&self, results: &mut Results) -> Result<Self::Value>;
}

/// What a run is asked for, said by a [`Fetch`].
pub struct Request<'a> {
    graph: &'a Graph,
    pub(crate) fetches: SmallVec<[Endpoint; 4]>,
    pub(crate) targets: SmallVec<[NodeId; 4]>,
}

/// The tensors of a run, in the order they were asked for; taken by a [`Fetch`].
pub struct Results {
    tensors: std::vec::IntoIter<Tensor>,
}

impl<'a> Request<'a> {
    pub(crate) fn new(graph: &'a Graph) -> Request<'a> {
        Request { graph, fetches: SmallVec::new(), targets: SmallVec::new() }
    }

    /// Asks for a value.
    pub fn fetch(&mut self, output: &Output) -> Result<()> {
        self.fetches.push(output.endpoint_in(self.graph)?);
        Ok(())
    }

    /// Asks for an operation to be run.
    pub fn target(&mut self, operation: &Operation) -> Result<()> {
        self.targets.push(operation.node_in(self.graph)?);
        Ok(())
    }
}

impl Results {
    pub(crate) fn new(tensors: Vec<Tensor>) -> Results {
        Results { tensors: tensors.into_iter() }
    }

    /// The next tensor.
    pub fn next_tensor(&mut self) -> Result<Tensor> {
        self.tensors.next().ok_or_else(|| Status::internal("a run gave fewer tensors than were asked for"))
    }
}

impl Fetch for Output {
    type Value = Tensor;

    fn request(&self, request: &mut Request<'_>) -> Result<()> {
        request.fetch(self)
    }

    fn take(&self, results: &mut Results) -> Result<Tensor> {
        results.next_tensor()
    }
}

impl Fetch for Variable {
    type Value = Tensor;

    fn request(&self, request: &mut Request<'_>) -> Result<()> {
        request.fetches.push(self.snapshot_in(request.graph)?);
        Ok(())
    }

    fn take(&self, results: &mut Results) -> Result<Tensor> {
        results.next_tensor()
    }
}

impl Fetch for Operation {
    type Value = ();

    fn request(&self, request: &mut Request<'_>) -> Result<()> {
        request.target(self)
    }

    fn take(&self, _: &mut Results) -> Result<()> {
        Ok(())
    }
}

impl Fetch for () {
    type Value = ();

    fn request(&self, _: &mut Request<'_>) -> Result<()> {
        Ok(())
    }

    fn take(&self, _: &mut Results) -> Result<()> {
        Ok(())
    }
}

impl<F: Fetch + ?Sized> Fetch for &F {
    type Value = F::Value;

    fn request(&self, request: &mut Request<'_>) -> Result<()> {
        (**self).request(request)
    }

    fn take(&self, results: &mut Results) -> Result<F::Value> {
        (**self).take(results)
    }
}

impl<F: Fetch> Fetch for [F] {
    type Value = Vec<F::Value>;

    fn request(&self, request: &mut Request<'_>) -> Result<()> {
        self.iter().try_for_each(|fetch| fetch.request(request))
    }

    fn take(&self, results: &mut Results) -> Result<Vec<F::Value>> {
        self.iter().map(|fetch| fetch.take(results)).collect()
    }
}

impl<F: Fetch> Fetch for Vec<F> {
    type Value = Vec<F::Value>;

    fn request(&self, request: &mut Request<'_>) -> Result<()> {
        self.as_slice().request(request)
    }

    fn take(&self, results: &mut Results) -> Result<Vec<F::Value>> {
        self.as_slice().take(results)
    }
}

impl<F: Fetch, const N: usize> Fetch for [F; N] {
    type Value = [F::Value; N];

    fn request(&self, request: &mut Request<'_>) -> Result<()> {
        self.as_slice().request(request)
    }

    fn take(&self, results: &mut Results) -> Result<[F::Value; N]> {
        let values = self.as_slice().take(results)?;
        values.try_into().map_err(|_| Status::internal("an array of fetches gave another number of values"))
    }
}

macro_rules! tuple_fetches {
    ($($name:ident),*) => {
        impl<$($name: Fetch),*> Fetch for ($($name,)*) {
            type Value = ($($name::Value,)*);

            #[allow(non_snake_case)]
            fn request(&self, request: &mut Request<'_>) -> Result<()> {
                let ($($name,)*) = self;
                $($name.request(request)?;)*
                Ok(())
            }

            #[allow(non_snake_case)]
            fn take(&self, results: &mut Results) -> Result<Self::Value> {
                let ($($name,)*) = self;
                Ok(($($name.take(results)?,)*))
            }
        }
    };
}

tuple_fetches!(A);
tuple_fetches!(A, B);
tuple_fetches!(A, B, C);
tuple_fetches!(A, B, C, D);
tuple_fetches!(A, B, C, D, E);
tuple_fetches!(A, B, C, D, E, F);
tuple_fetches!(A, B, C, D, E, F, G);
tuple_fetches!(A, B, C, D, E, F, G, H);
