//! Tools whose arguments callers over HTTP repeat in headers (`x-mcp-header`, 2026-07-28), learnt from the lists of tools.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use lmcp_core::{CallerTransport, Request};
use lmcp_wire::{RpcError, method::request};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

/// The schemas of these tools.
#[derive(Default)]
pub(crate) struct Mirrored(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// The number of the connection that the lists came over, counted from one.
    connection: u64,
    /// The whole list was read, and has not changed since.
    is_whole: bool,
    schemas: HashMap<String, Value>,
}

impl Mirrored {
    /// Learns from one page of tools that came over this connection.
    pub(crate) fn learn(&self, connection: u64, page: &RawValue) {
        let mut known = self.lock();
        if known.connection != connection {
            *known = Known {
                connection,
                ..Known::default()
            };
        }
        let Ok(page) = serde_json::from_str::<Page<'_>>(page.get()) else {
            return;
        };
        known.is_whole = page.next_cursor.is_none();
        for tool in page.tools {
            // Most schemas do not contain the word, and need not be parsed for it.
            let schema = tool.input_schema.filter(|it| it.get().contains(KEYWORD));
            let schema = schema.and_then(|schema| serde_json::from_str(schema.get()).ok());
            let has_room = known.schemas.len() < MOST_TOOLS;
            match schema.filter(|_| has_room) {
                Some(schema) => drop(known.schemas.insert(tool.name.into_owned(), schema)),
                None => drop(known.schemas.remove(&*tool.name)),
            }
        }
    }

    /// Notes that the server has other tools now.
    pub(crate) fn forget(&self) {
        self.lock().is_whole = false;
    }

    /// Returns whether the whole list came over this connection.
    pub(crate) fn is_known(&self, connection: u64) -> bool {
        let known = self.lock();
        known.connection == connection && known.is_whole
    }

    /// Checks that the headers of a call agree with its arguments.
    pub(crate) fn check(&self, request: &Request) -> Result<(), RpcError> {
        let name = request.target()?;
        match self.lock().schemas.get(&*name) {
            Some(schema) => request.check_headers(schema),
            None => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether the headers of this request can repeat arguments.
pub(crate) fn is_checked(request: &Request) -> bool {
    request.method() == request::TOOLS_CALL
        && request.session().is_none()
        && request.caller().transport() == CallerTransport::Http
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    #[serde(borrow)]
    tools: Vec<Tool<'a>>,
    #[serde(borrow)]
    next_cursor: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tool<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    input_schema: Option<&'a RawValue>,
}

const KEYWORD: &str = "x-mcp-header";

/// The number of tools with such arguments that are remembered for one server.
const MOST_TOOLS: usize = 1024;
