//! A server inside an axum application that has its own login. The tools know who is logged in.
//! `cargo run -p lmcp --example axum -- 8080`, then connect a client to `http://127.0.0.1:8080/mcp` with the header
//! `Authorization: Bearer ann-token`.

use std::{future::IntoFuture as _, net::Ipv4Addr, pin::pin, time::Duration};

use axum::{
    Router,
    extract::Request,
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::get,
};
use lmcp::{Cx, NoArgs, Principal, Server, Tool, http};
use tokio::{
    net::TcpListener,
    signal::{
        ctrl_c,
        unix::{SignalKind, signal},
    },
    sync::oneshot,
    time::timeout,
};

/// The user of a request, as the application's own login found it.
#[derive(Clone)]
struct User {
    name: &'static str,
    is_admin: bool,
}

/// The login of the application: every route is behind it, the MCP server among them.
async fn log_in(mut request: Request, next: Next) -> Response {
    let user = match http::bearer(request.headers()) {
        Some("ann-token") => ("ann", true),
        Some("bob-token") => ("bob", false),
        _ => return (StatusCode::UNAUTHORIZED, "log in first").into_response(),
    };
    let (name, is_admin) = user;
    request.extensions_mut().insert(User { name, is_admin });
    next.run(request).await
}

async fn whoami(_: NoArgs, cx: Cx) -> String {
    match cx.extension::<User>() {
        Some(user) => format!("you are {}", user.name),
        None => "you are nobody".to_owned(),
    }
}

async fn erase(_: NoArgs, cx: Cx) -> String {
    format!("erased for {}", cx.principal().unwrap_or("nobody"))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args()
        .nth(1)
        .map_or(Ok(8080), |port| port.parse())?;
    let server = Server::new("app", "0.1.0")
        .tool(
            Tool::new("whoami", whoami)
                .about("Tell who is logged in.")
                .read_only(),
        )
        .tool(
            Tool::new("erase", erase)
                .about("Erase everything.")
                .destructive()
                .only_for(["admin"]),
        )
        .start()?;

    // Sessions, tasks and subscriptions belong to the user that the login found. Handlers find the `User`, too.
    let mcp = http::service(server.clone())
        .login(|user: &User| match user.is_admin {
            true => Principal::new(user.name).role("admin"),
            false => Principal::new(user.name),
        })
        .build();
    let app = Router::new()
        .route_service("/mcp", mcp)
        .route("/", get(async || "the application's own page"))
        .layer(middleware::from_fn(log_in));

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    let (stop, stopping) = oneshot::channel::<()>();
    let serving = axum::serve(listener, app).with_graceful_shutdown(async {
        let _ = stopping.await;
    });
    let mut serving = pin!(serving.into_future());
    // Service managers and containers send SIGTERM.
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        ended = &mut serving => return Ok(ended?),
        _ = ctrl_c() => {}
        _ = terminated.recv() => {}
    }
    // Ends subscriptions, which would keep their connections open for ever.
    server.close();
    drop(stop);
    // Calls that take longer than this are cut off.
    match timeout(Duration::from_secs(5), serving).await {
        Ok(ended) => Ok(ended?),
        Err(_) => Ok(()),
    }
}
