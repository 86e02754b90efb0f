//! Resources: a text, a picture, one to watch, and a family of them.

use lmcp::{Cx, NoArgs, Resource, Server};
use serde::Deserialize;
use serde_json::json;

use crate::media;

pub(crate) fn add(server: Server) -> Server {
    server
        .resource(
            Resource::text(
                "test://static-text",
                "static-text",
                "This is the content of the static text resource.",
            )
            .about("A text that never changes."),
        )
        .resource(
            Resource::new("test://static-binary", "static-binary", picture)
                .about("A picture that never changes.")
                .mime("image/png"),
        )
        .resource(
            Resource::text("test://watched-resource", "watched-resource", "Watch this.")
                .about("A text to subscribe to."),
        )
        .resource(
            Resource::template("test://template/{id}/data", "template", record)
                .about("A record, by its id.")
                .mime("application/json"),
        )
}

async fn picture(_: NoArgs, _: Cx) -> Vec<u8> {
    media::PNG.into()
}

#[derive(Deserialize)]
struct Record {
    id: String,
}

async fn record(record: Record, _: Cx) -> String {
    let id = record.id;
    json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") }).to_string()
}
