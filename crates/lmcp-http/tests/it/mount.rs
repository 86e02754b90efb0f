//! Mounted into a program that has an HTTP server: here axum's.

use axum::{Extension, Router, http, routing::get};
use lmcp_core::{Caller, Challenge, Cx, Handle, NoArgs, Principal, Tool};
use lmcp_http::HttpService;
use serde_json::json;
use tokio::{net::TcpListener, task::JoinSet};

use crate::support::{Connection, call, hanging, request, server};

#[tokio::test]
async fn it_answers_beside_other_routes() {
    let mounted = mount(server().start().unwrap()).await;
    let mut connection = Connection::open(mounted.address).await;
    let answer = connection.ask(&call("quick")).await;
    assert_eq!(answer.json()["result"]["content"][0]["text"], "quick");
    let answer = connection
        .ask(&call("quick").verb("GET").path("/health"))
        .await;
    assert_eq!(answer.body, "well");
    let answer = connection.ask(&call("quick").verb("GET")).await;
    assert_eq!(answer.head.status, 405);
    let answer = connection
        .ask(&call("quick").with("host", "evil.example"))
        .await;
    assert_eq!(answer.head.status, 403);
    let answer = connection
        .ask(&call("quick").with("host", "tools.example"))
        .await;
    assert_eq!(answer.head.status, 200);
}

#[tokio::test]
async fn it_streams() {
    async fn speak(_: NoArgs, cx: Cx) -> &'static str {
        cx.progress(1).step("speaking");
        "spoken"
    }
    let tool = Tool::new("speak", speak).read_only();
    let mounted = mount(server().tool(tool).start().unwrap()).await;
    let mut connection = Connection::open(mounted.address).await;
    connection.send(&call("speak")).await;
    assert_eq!(
        connection.head().await.get("content-type"),
        Some("text/event-stream")
    );
    assert_eq!(
        connection.message().await["method"],
        "notifications/progress"
    );
    assert_eq!(connection.message().await["id"], 1);
    assert_eq!(connection.event().await, None);
}

#[tokio::test]
async fn closing_the_connection_stops_the_work() {
    let (tool, mut watcher) = hanging("hang");
    let mounted = mount(server().tool(tool).start().unwrap()).await;
    let mut connection = Connection::open(mounted.address).await;
    connection.send(&call("hang")).await;
    watcher.started().await;
    drop(connection);
    watcher.dropped().await;
}

#[tokio::test]
async fn the_server_can_be_changed_while_it_is_mounted() {
    let server = server().start().unwrap();
    let mounted = mount(server.clone()).await;
    let mut listening = Connection::open(mounted.address).await;
    let listen = request(
        "subscriptions/listen",
        json!({ "notifications": { "toolsListChanged": true } }),
    );
    listening.send(&listen).await;
    listening.head().await;
    listening.message().await;
    server.remove_tool("quick");
    assert_eq!(
        listening.message().await["method"],
        "notifications/tools/list_changed"
    );
}

// Clones of a service were once changed by nothing but a warning in the log.
#[tokio::test]
async fn every_clone_of_a_service_asks_who_calls() {
    let service = lmcp_http::service(server().start().unwrap())
        .identify(|headers| match lmcp_http::bearer(headers) {
            Some("secret") => Ok(Some("ann".into())),
            _ => Err("show a token".into()),
        })
        .build();
    let mounted = mount_service(service.clone()).await;
    let mut connection = Connection::open(mounted.address).await;
    let answer = connection.ask(&call("quick")).await;
    assert_eq!(answer.head.status, 401);
    let known = call("quick").with("authorization", "Bearer secret");
    assert_eq!(connection.ask(&known).await.head.status, 200);
}

#[tokio::test]
async fn what_middleware_adds_reaches_handlers_and_says_who_calls() {
    #[derive(Clone)]
    struct LoggedIn(&'static str);
    async fn tell(_: NoArgs, cx: Cx) -> String {
        let all = cx.extension::<http::Extensions>();
        let hidden = all.and_then(|all| all.get::<u16>());
        let found = cx.extension::<LoggedIn>().map(|LoggedIn(name)| *name);
        let (principal, unsaid) = (cx.principal(), cx.extension::<u16>());
        format!("{found:?} {principal:?} {unsaid:?} {hidden:?}")
    }
    let tool = Tool::new("tell", tell).read_only();
    let service = lmcp_http::service(server().tool(tool).start().unwrap())
        .carry::<LoggedIn>()
        .authenticate(|caller: &Caller| match caller.extension::<LoggedIn>() {
            Some(LoggedIn(name)) => Ok(Principal::new(*name).role("admin")),
            None => Err(Challenge::new("log in")),
        })
        .build();
    let known = Router::new()
        .route_service("/mcp", service.clone())
        .layer(Extension(LoggedIn("ann")))
        .layer(Extension(7_u16));
    let mounted = serve_router(known).await;
    let answer = Connection::open(mounted.address)
        .await
        .ask(&call("tell"))
        .await;
    let text = &answer.json()["result"]["content"][0]["text"];
    assert_eq!(text, r#"Some("ann") Some("ann") None Some(7)"#);
    let mounted = mount_service(service).await;
    let mut stranger = Connection::open(mounted.address).await;
    assert_eq!(stranger.ask(&call("tell")).await.head.status, 401);
}

/// An axum server that runs until this is dropped.
struct Mounted {
    address: std::net::SocketAddr,
    _serving: JoinSet<()>,
}

async fn mount(server: Handle) -> Mounted {
    let service = lmcp_http::service(server)
        .allow_host("tools.example")
        .build();
    mount_service(service).await
}

async fn mount_service(service: HttpService) -> Mounted {
    let router = Router::new()
        .route_service("/mcp", service)
        .route("/health", get(async || "well"));
    serve_router(router).await
}

async fn serve_router(router: Router) -> Mounted {
    let listener = TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let _ = axum::serve(listener, router).await;
    });
    Mounted {
        address,
        _serving: serving,
    }
}
