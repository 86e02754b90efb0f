//! [`debug_handler`]: a better compiler error for a function that is no handler.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::IntoToolOutput;
use crate::cx::Cx;

/// Does nothing; but the compiler says precisely why a function cannot stand behind a tool.
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
/// A method that takes its state first is put into a closure: `debug_handler(|args, cx| Project::count(project.clone(), args, cx))`.
pub fn debug_handler<A, R, F>(_handler: impl Fn(A, Cx) -> F + Send + Sync + 'static)
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Future<Output = R> + Send + 'static,
    R: IntoToolOutput + 'static,
{
}
