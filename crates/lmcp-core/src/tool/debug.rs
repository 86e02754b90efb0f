//! [`debug_handler`]: a better compiler error for a function that is no handler.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::IntoToolOutput;
use crate::{
    cx::Cx,
    handler::{WithArgs, WithState},
};

/// Does nothing when it runs. The compiler says precisely why the function cannot be a tool.
///
/// Where [`Tool::new`](crate::Tool::new) only says that the function "is not a handler", call this with the same function. It names
/// the value that is held across an `.await` and cannot be sent to another thread, or the trait that the arguments lack. Remove the
/// call when the program compiles.
///
/// ```
/// # use lmcp::{Cx, NoArgs};
/// async fn hello(_: NoArgs, _: Cx) -> &'static str {
///     "hello"
/// }
///
/// lmcp::debug_handler(hello);
/// ```
///
/// A method that takes its state first is a handler, too:
///
/// ```
/// # use std::sync::Arc;
/// # use lmcp::{Cx, NoArgs};
/// # struct Counter;
/// impl Counter {
///     async fn count(self: Arc<Self>, _: NoArgs, _: Cx) -> &'static str {
///         "1"
///     }
/// }
///
/// lmcp::debug_handler(Counter::count);
/// ```
pub fn debug_handler<H, S, A, R, Shape>(_handler: H)
where
    H: AsyncFunction<S, A, Shape, Future: Future<Output = R> + Send + 'static>,
    A: DeserializeOwned + JsonSchema + Send + 'static,
    R: IntoToolOutput + 'static,
{
}

/// A function in one of the two shapes of a handler, with any arguments and any result. [`debug_handler`] requires the other
/// traits.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` takes other arguments than a handler",
    label = "not `async fn(Args, Cx)` or `async fn(Arc<S>, Args, Cx)`",
    note = "a handler is `async fn(Args, Cx) -> R`, or `async fn(Arc<S>, Args, Cx) -> R` in a `ToolSet`",
    note = "it takes all of them by value, also those that it does not use: `Cx`, not `&Cx`",
    note = "a method with state takes `self: Arc<Self>`, not `&self` or `self`"
)]
pub trait AsyncFunction<S, A, Shape>: Send + Sync + 'static {
    type Future;
}

impl<H, F, A> AsyncFunction<(), A, WithArgs> for H
where
    H: Fn(A, Cx) -> F + Send + Sync + 'static,
{
    type Future = F;
}

impl<H, F, S, A> AsyncFunction<S, A, WithState> for H
where
    H: Fn(Arc<S>, A, Cx) -> F + Send + Sync + 'static,
{
    type Future = F;
}
