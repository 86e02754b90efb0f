//! Mounted into a program that has an HTTP server: here axum's.

use axum::{Extension, Router, http, routing::get};
use lmcp_core::{Audience, Caller, Challenge, Cx, Handle, NoArgs, Principal, Tool};
use lmcp_http::HttpService;
use serde_json::json;
use tokio::{net::TcpListener, task::JoinSet};

use crate::{
    support::{Answer, Connection, Post, body, call, hanging, request, server, soon},
    visitor::{NEWEST, opening},
};

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

#[tokio::test]
async fn an_application_ends_once_the_server_is_closed_though_somebody_listens() {
    let server = server().start().unwrap();
    let service = lmcp_http::service(server.clone()).build();
    let router = Router::new().route_service("/mcp", service);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let serving = axum::serve(listener, router).with_graceful_shutdown(async move {
            let _ = stopped.await;
            server.close();
        });
        serving.await.unwrap();
    });
    let mut listening = Connection::open(address).await;
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    listening
        .send(&request("subscriptions/listen", wanted))
        .await;
    listening.head().await;
    listening.message().await;
    stop.send(()).unwrap();
    soon(serving.join_next()).await.unwrap().unwrap();
}

#[derive(Clone)]
struct User(&'static str);

/// An application whose login found this user.
async fn logged_in(service: &HttpService, name: &'static str) -> Mounted {
    let router = Router::new().route_service("/mcp", service.clone());
    serve_router(router.layer(Extension(User(name)))).await
}

#[tokio::test]
async fn with_a_login_sessions_belong_to_the_user_of_the_application() {
    let service = lmcp_http::service(server().start().unwrap())
        .login(|User(name): &User| Principal::new(*name))
        .build();
    let (ann, bob) = (
        logged_in(&service, "ann").await,
        logged_in(&service, "bob").await,
    );
    let stranger = mount_service(service).await;
    let opened = ask(&ann, &opening(NEWEST, "x", json!({}))).await;
    let session = opened.head.get("mcp-session-id").expect("a session");
    let ping = body(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).with("mcp-session-id", session);
    let listen = ping.clone().verb("GET").with("accept", "text/event-stream");
    assert_eq!(ask(&ann, &ping).await.head.status, 200);
    assert_eq!(ask(&bob, &ping).await.head.status, 404);
    assert_eq!(ask(&bob, &listen).await.head.status, 404);
    assert_eq!(ask(&stranger, &ping).await.head.status, 401);
}

#[tokio::test]
async fn at_a_logout_the_open_stream_of_a_session_can_be_ended() {
    let server = server().start().unwrap();
    let service = lmcp_http::service(server.clone())
        .login(|User(name): &User| Principal::new(*name))
        .build();
    let ann = logged_in(&service, "ann").await;
    let opened = ask(&ann, &opening("2025-06-18", "x", json!({}))).await;
    let session = opened.head.get("mcp-session-id").expect("a session");
    let listen = body("").verb("GET").with("accept", "text/event-stream");
    let listen = listen.with("mcp-session-id", session);
    let mut listening = Connection::open(ann.address).await;
    listening.send(&listen).await;
    assert_eq!(listening.head().await.status, 200);
    server.remove_tool("quick");
    let changed = "notifications/tools/list_changed";
    assert!(listening.event().await.unwrap().contains(changed));
    let ended = server.to(Audience::Principal("ann")).end_subscriptions();
    assert_eq!(ended, 1);
    assert_eq!(listening.event().await, None);
    // Whoever may still call can listen again.
    let mut again = Connection::open(ann.address).await;
    again.send(&listen).await;
    assert_eq!(again.head().await.status, 200);
    server
        .add_tool(Tool::new("more", async |_: NoArgs, _: Cx| "more").read_only())
        .unwrap();
    assert!(again.event().await.unwrap().contains(changed));
}

async fn ask(mounted: &Mounted, post: &Post) -> Answer {
    Connection::open(mounted.address).await.ask(post).await
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
