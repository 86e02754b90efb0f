//! The two shapes of a handler, and the erasure of their types.

use std::{pin::Pin, sync::Arc};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    cx::Cx,
    error::{ToolError, ToolResult},
};

/// An async function that can stand behind a tool, a resource or a prompt.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    label = "not a handler",
    note = "a handler is `async fn(Args, Cx) -> R`, or `async fn(Arc<S>, Args, Cx) -> R` in a `ToolSet`",
    note = "it takes all of them by value, also those that it does not use: `Cx`, not `&Cx`",
    note = "a method with state takes `self: Arc<Self>`, not `&self` or `self`",
    note = "its future must be `Send`: hold no `Rc`, `RefCell` borrow or `MutexGuard` across an `.await`",
    note = "call `lmcp::debug_handler` with the same function, and the compiler says more; the docs of `lmcp` have a table: \"When it does not compile\""
)]
pub trait Handler<S, A, R, Shape>: Send + Sync + 'static {
    /// Runs the function.
    fn call(&self, state: &Arc<S>, args: A, cx: Cx) -> impl Future<Output = R> + Send + 'static;
}

/// The shape `async fn(Args, Cx) -> R`.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "a marker")]
pub struct WithArgs;

/// The shape `async fn(Arc<S>, Args, Cx) -> R`.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "a marker")]
pub struct WithState;

impl<F, Fut, S, A, R> Handler<S, A, R, WithArgs> for F
where
    F: Fn(A, Cx) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = R> + Send + 'static,
{
    fn call(&self, _state: &Arc<S>, args: A, cx: Cx) -> impl Future<Output = R> + Send + 'static {
        self(args, cx)
    }
}

impl<F, Fut, S, A, R> Handler<S, A, R, WithState> for F
where
    F: Fn(Arc<S>, A, Cx) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = R> + Send + 'static,
    S: Send + Sync + 'static,
{
    fn call(&self, state: &Arc<S>, args: A, cx: Cx) -> impl Future<Output = R> + Send + 'static {
        self(Arc::clone(state), args, cx)
    }
}

/// The future of a running handler.
pub(crate) type HandlerFuture<O> = Pin<Box<dyn Future<Output = ToolResult<O>> + Send>>;

/// A handler that has no state yet.
pub(crate) type Unbound<S, I, O> = Box<dyn Fn(&Arc<S>, I, Cx) -> HandlerFuture<O> + Send + Sync>;

/// A handler that has its state, and can run.
pub(crate) type Bound<I, O> = Arc<dyn Fn(I, Cx) -> HandlerFuture<O> + Send + Sync>;

/// Erases the types of a handler: `decode` makes its arguments, `finish` turns its result into the output.
pub(crate) fn erase<S, I, O, H, A, R, Shape>(
    handler: H,
    decode: impl Fn(I) -> ToolResult<A> + Send + Sync + 'static,
    finish: impl Fn(R) -> ToolResult<O> + Copy + Send + Sync + 'static,
) -> Unbound<S, I, O>
where
    S: Send + Sync + 'static,
    H: Handler<S, A, R, Shape>,
    A: 'static,
    R: Send + 'static,
    I: 'static,
    O: Send + 'static,
{
    Box::new(move |state, input, cx| match decode(input) {
        Ok(args) => {
            let work = handler.call(state, args, cx);
            Box::pin(async move { finish(work.await) })
        }
        Err(err) => Box::pin(std::future::ready(Err(err))),
    })
}

/// Gives a handler its state.
pub(crate) fn bind<S, I: 'static, O: 'static>(
    handler: Unbound<S, I, O>,
    state: &Arc<S>,
) -> Bound<I, O>
where
    S: Send + Sync + 'static,
{
    let state = Arc::clone(state);
    Arc::new(move |input, cx| handler(&state, input, cx))
}

/// Makes the arguments of a handler. serde may still reject what the schema accepts.
pub(crate) fn decode_arguments<A: DeserializeOwned>(mut arguments: Value) -> ToolResult<A> {
    make_whole(&mut arguments);
    serde_json::from_value(arguments)
        .map_err(|err| ToolError::new(format!("the arguments do not fit: {err}")))
}

/// `42.0` is an integer to JSON Schema, and must be one to a field of type `i64` too.
fn make_whole(value: &mut Value) {
    /// Every whole double below this number is exact.
    const SAFE: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole = number
                .as_f64()
                .filter(|number| number.fract() == 0.0 && number.abs() < SAFE);
            if let Some(whole) = whole {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "checked in the lines above"
                )]
                let whole = whole as i64;
                *number = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_whole),
        Value::Object(members) => members.values_mut().for_each(make_whole),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
