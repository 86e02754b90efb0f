//! A server for one SQLite database: its tables as a resource, questions to it as a tool, and changes after a question to the user.
//! `cargo run --manifest-path examples/sqlite/Cargo.toml -- notes.db`

use std::sync::{Arc, Mutex, PoisonError};

use lmcp::{Cx, Json, NoArgs, Resource, Server, Tool, ToolError, ToolResult, ToolSet};
use rusqlite::{Connection, types::ValueRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The most rows of one answer: a model needs no more, and can ask for the next.
const MOST_ROWS: usize = 100;

struct Database(Mutex<Connection>);

#[derive(Deserialize, JsonSchema)]
struct Query {
    /// One SELECT statement.
    sql: String,
}

#[derive(Serialize, JsonSchema)]
struct Rows {
    columns: Vec<String>,
    rows: Vec<Vec<Value>>,
    /// There are more rows than these.
    cut: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Change {
    /// One statement that changes the database.
    sql: String,
}

#[derive(Deserialize, JsonSchema)]
struct Sure {
    /// Run it?
    yes: bool,
}

impl Database {
    fn open(path: &str) -> rusqlite::Result<Self> {
        Ok(Self(Mutex::new(Connection::open(path)?)))
    }

    /// Runs code with the connection, on a thread where it may block. Errors of SQLite are told to the model.
    async fn with<T: Send + 'static>(
        self: Arc<Self>,
        cx: &Cx,
        run: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> ToolResult<T> {
        let work = move || run(&self.0.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(cx.blocking(work).await??)
    }

    async fn query(self: Arc<Self>, args: Query, cx: Cx) -> ToolResult<Json<Rows>> {
        let rows = self.with(&cx, move |db| {
            let mut statement = db.prepare(&args.sql)?;
            if !statement.readonly() {
                return Ok(None);
            }
            let columns: Vec<_> = statement.column_names().into_iter().map(Into::into).collect();
            let width = columns.len();
            let mut found = statement.query([])?;
            let mut rows = Vec::new();
            let mut cut = false;
            while let Some(row) = found.next()? {
                if rows.len() == MOST_ROWS {
                    cut = true;
                    break;
                }
                rows.push((0..width).map(|at| Ok(value(row.get_ref(at)?))).collect::<Result<_, rusqlite::Error>>()?);
            }
            Ok(Some(Rows { columns, rows, cut }))
        });
        let wrong = || ToolError::new("the statement changes the database").hint("use `change`");
        Ok(Json(rows.await?.ok_or_else(wrong)?))
    }

    async fn change(self: Arc<Self>, args: Change, cx: Cx) -> ToolResult<String> {
        let sure: Sure = cx.ask("sure", format!("Run this on the database?\n{}", args.sql)).await?;
        if !sure.yes {
            return Ok("nothing was changed".into());
        }
        let changed = self.with(&cx, move |db| db.execute(&args.sql, [])).await?;
        cx.server().resource_updated("sqlite://tables");
        Ok(format!("{changed} rows changed"))
    }

    async fn tables(self: Arc<Self>, _: NoArgs, cx: Cx) -> ToolResult<String> {
        self.with(&cx, |db| {
            let mut statement = db.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")?;
            let texts: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
            Ok(texts.join(";\n"))
        })
        .await
    }
}

fn value(cell: ValueRef<'_>) -> Value {
    match cell {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => json!(number),
        ValueRef::Real(number) => json!(number),
        ValueRef::Text(text) => json!(String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => json!(format!("{} bytes", bytes.len())),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("name the file of the database")?;
    let set = ToolSet::new(Database::open(&path)?)
        .tool(Tool::new("query", Database::query).about("Read rows with SELECT. At most 100 are returned.").read_only())
        .tool(Tool::new("change", Database::change).about("Change the database. The user is asked first.").destructive())
        .resource(Resource::new("sqlite://tables", "tables", Database::tables).about("The schema.").mime("application/sql"));
    Server::new("sqlite", "0.1.0").tools(set).serve(lmcp::stdio()).await?;
    Ok(())
}
