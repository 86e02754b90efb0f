//! Who calls, where the program says more than a name: roles, scopes, claims, and challenges of its own.

use lmcp_core::{Authenticate, Caller, Challenge, Cx, NoArgs, Principal, Server, Tool};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::{
    support::{Post, Running, body, call, limits, request, serve_as, server},
    visitor::Visitor,
};

/// `Bearer NAME:ROLE`, looked up elsewhere: the answer takes a turn.
struct Slow;

impl Authenticate for Slow {
    async fn authenticate(&self, caller: &Caller) -> Result<Principal, Challenge> {
        tokio::task::yield_now().await;
        at_once(caller)
    }
}

fn at_once(caller: &Caller) -> Result<Principal, Challenge> {
    let token = caller.bearer();
    let token = token.ok_or_else(|| Challenge::new("a token is needed"))?;
    match token.split_once(':') {
        Some((name, "")) => Ok(Principal::new(name)),
        Some(("", role)) => Ok(Principal::anyone().role(role)),
        Some((name, role)) => Ok(Principal::new(name)
            .role(role)
            .scopes(["read", "write"])
            .claim("email", format!("{name}@example.com"))),
        None => Err(Challenge::new("this token is not known")),
    }
}

fn shown(post: Post, token: &str) -> Post {
    post.with("authorization", &format!("Bearer {token}"))
}

fn roles() -> Server {
    let tool = |name: &str| Tool::new(name, async |_: NoArgs, _: Cx| "done").read_only();
    server()
        .tool(tool("remove").only_for(["admin"]))
        .tool(tool("report").only_for(["admin", "reader"]))
}

async fn names(running: &Running, post: &Post) -> Vec<String> {
    let answer = running.ask(post).await.json();
    let tools = answer["result"]["tools"].as_array().cloned();
    let name = |tool: &Value| tool["name"].as_str().map(str::to_owned);
    tools.iter().flatten().filter_map(name).collect()
}

#[tokio::test]
async fn handlers_know_what_the_credentials_say() {
    async fn tell(_: NoArgs, cx: Cx) -> String {
        let email = cx.claims().and_then(|claims| claims.get("email")).cloned();
        let (principal, role, scopes) = (cx.principal(), cx.role(), cx.scopes());
        json!([principal, role, scopes, email]).to_string()
    }
    let tool = Tool::new("tell", tell).read_only();
    let running = serve_as(server().tool(tool), |http| http.authenticate(Slow)).await;
    for (token, expected) in [
        (
            "ann:admin",
            r#"["ann","admin",["read","write"],"ann@example.com"]"#,
        ),
        ("ann:", r#"["ann",null,[],null]"#),
        (":admin", r#"[null,"admin",[],null]"#),
    ] {
        let answer = running.ask(&shown(call("tell"), token)).await;
        assert_eq!(answer.json()["result"]["content"][0]["text"], expected);
    }
}

#[tokio::test]
async fn a_role_decides_over_http_which_tools_there_are() {
    for slow in [true, false] {
        let running = serve_as(roles(), |http| {
            if slow {
                http.authenticate(Slow)
            } else {
                http.authenticate(at_once)
            }
        })
        .await;
        for (token, expected) in [
            ("ann:admin", &["quick", "remove", "report"][..]),
            ("ann:reader", &["quick", "report"]),
            ("ann:", &["quick"]),
            (":admin", &["quick", "remove", "report"]),
        ] {
            let list = shown(request("tools/list", json!({})), token);
            assert_eq!(names(&running, &list).await, expected, "{token}");
            let value = format!("Bearer {token}");
            let visitor = Visitor::showing(&running, "authorization", &value).await;
            let list = shown(visitor.request(2, "tools/list", json!({})), token);
            assert_eq!(
                names(&running, &list).await,
                expected,
                "{token}, in a session"
            );
        }
    }
}

#[tokio::test]
async fn what_a_role_does_not_see_is_not_there() {
    let running = serve_as(roles(), |http| http.authenticate(Slow)).await;
    for token in ["ann:reader", "ann:", "remove:"] {
        for tool in ["remove", "remov"] {
            let answer = running.ask(&shown(call(tool), token)).await;
            let error = &answer.json()["error"];
            assert_eq!(error["message"], format!("there is no tool `{tool}`"));
            assert_eq!(error["data"]["near"], Value::Null);
        }
    }
    let answer = running.ask(&shown(call("remove"), "ann:admin")).await;
    assert_eq!(answer.json()["result"]["content"][0]["text"], "done");
}

#[tokio::test]
async fn a_challenge_is_the_programs_own() {
    fn refuse(caller: &Caller) -> Result<Principal, Challenge> {
        Err(match caller.bearer() {
            None => Challenge::new("log in").parameter("resource_metadata", "https://x.example/m"),
            Some("narrow") => Challenge::forbidden("more is needed")
                .parameter("error", "insufficient_scope")
                .parameter("scope", "a b"),
            Some("banned") => Challenge::forbidden("not you"),
            Some("basic") => Challenge::new("otherwise").www_authenticate("Basic realm=\"x\""),
            Some("later") => Challenge::not_now("the issuer does not answer"),
            Some("odd") => Challenge::new("well").status(200).www_authenticate("a\nb"),
            Some(_) => Challenge::new("who?"),
        })
    }
    let running = serve_as(server(), |http| http.legacy_sse().authenticate(refuse)).await;
    for (token, status, challenge) in [
        (
            None,
            401,
            Some(r#"Bearer realm="lmcp", resource_metadata="https://x.example/m""#),
        ),
        (
            Some("x"),
            401,
            Some(r#"Bearer realm="lmcp", error="invalid_token""#),
        ),
        (
            Some("narrow"),
            403,
            Some(r#"Bearer realm="lmcp", error="insufficient_scope", scope="a b""#),
        ),
        (Some("banned"), 403, None),
        (Some("basic"), 401, Some(r#"Basic realm="x""#)),
        (Some("later"), 503, None),
        (Some("odd"), 401, Some(r#"Bearer realm="lmcp""#)),
    ] {
        for post in [
            call("quick"),
            call("quick").verb("GET"),
            call("quick").verb("DELETE"),
            body("").verb("GET").path("/sse"),
            body("{}").path("/messages"),
        ] {
            let post = token.map_or(post.clone(), |token| shown(post, token));
            let answer = running.ask(&post).await;
            assert_eq!(answer.head.status, status, "{post:?}");
            assert_eq!(answer.head.get("www-authenticate"), challenge, "{post:?}");
        }
    }
}

#[tokio::test]
async fn nothing_of_a_body_is_awaited_before_it_is_known_who_calls() {
    struct Asked(mpsc::UnboundedSender<oneshot::Sender<()>>);
    impl Authenticate for Asked {
        async fn authenticate(&self, _: &Caller) -> Result<Principal, Challenge> {
            let (answer, answered) = oneshot::channel();
            self.0.send(answer).expect("the test listens");
            answered.await.expect("the test answers");
            Ok(Principal::new("ann"))
        }
    }
    let (asked, mut asking) = mpsc::unbounded_channel();
    let running = serve_as(server(), |http| http.authenticate(Asked(asked))).await;
    let (mut connection, post) = (running.connect().await, call("quick"));
    connection
        .write(post.head(running.address).as_bytes())
        .await;
    let answer = asking.recv().await.expect("it is asked without a body");
    connection.write(post.body().as_bytes()).await;
    answer.send(()).expect("it waits");
    let head = connection.head().await;
    assert_eq!(head.status, 200);
    // A caller that hangs up is not asked about any longer.
    let mut gone = running.connect().await;
    gone.send(&call("quick")).await;
    let mut answer = asking.recv().await.expect("it is asked");
    drop(gone);
    answer.closed().await;
}

#[tokio::test]
async fn nobody_comes_in_by_a_panic_or_by_silence() {
    struct Broken;
    impl Authenticate for Broken {
        async fn authenticate(&self, caller: &Caller) -> Result<Principal, Challenge> {
            match caller.bearer() {
                Some("panic") => panic!("a secret"),
                Some("silence") => std::future::pending().await,
                _ => Ok(Principal::anyone()),
            }
        }
    }
    let short = limits(|limits| limits.auth_wait = std::time::Duration::from_millis(20));
    let running = serve_as(server().limits(short), |http| http.authenticate(Broken)).await;
    let mut connection = running.connect().await;
    let answer = connection.ask(&shown(call("quick"), "panic")).await;
    assert_eq!(answer.head.status, 500);
    assert!(answer.body.contains("incident") && !answer.body.contains("secret"));
    let answer = connection.ask(&shown(call("quick"), "silence")).await;
    assert_eq!(answer.head.status, 503);
    assert_eq!(answer.head.get("retry-after"), Some("1"));
    assert_eq!(connection.ask(&call("quick")).await.head.status, 200);
}

// Ownership has one rule: the name and the role together.
#[tokio::test]
async fn the_same_name_in_another_role_is_somebody_else() {
    let running = serve_as(server(), |http| http.authenticate(Slow)).await;
    let ann = Visitor::showing(&running, "authorization", "Bearer ann:admin").await;
    let ping = ann.request(1, "ping", json!({}));
    for (token, status) in [
        ("ann:admin", 200),
        ("ann:reader", 404),
        ("ann:", 404),
        (":admin", 404),
        ("bob:admin", 404),
    ] {
        let answer = running.ask(&shown(ping.clone(), token)).await;
        assert_eq!(answer.head.status, status, "{token}");
    }
}
