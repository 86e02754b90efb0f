//! Requests that are for one start of a server only.

use std::{fs, path::Path};

use lmcp_core::{Cx, Endpoint, NoArgs, Replies, Request, Server, Service, Tasks, Tool, unix};
use lmcp_upstream::{AtStart, Route, Upstream};
use serde_json::json;

/// Binds every request to this start of the server.
struct Bound(Upstream, u64);

impl Service for Bound {
    fn call(&self, mut request: Request) -> Replies {
        request.extend(AtStart::new(self.1));
        self.0.call(request)
    }
}

fn serve(path: &Path) -> Tasks {
    let say = Tool::new("say", |_: NoArgs, _: Cx| async { "hello" });
    let server = Server::new("x", "1").tool(say.read_only()).start();
    let endpoint = server.expect("the server is sound").endpoint();
    let _ = fs::remove_file(path);
    let socket = unix(path).expect("the folder is this test's");
    let serving = Tasks::default();
    serving.spawn(async move {
        let _ = endpoint.serve(socket).await;
    });
    serving
}

#[tokio::test]
async fn a_request_for_one_start_of_a_server_does_not_reach_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let first = serve(&path);
    let upstream = Upstream::new(Route::Socket(path.clone()));
    let [one, two] = [1, 2].map(|start| Endpoint::new(Bound(upstream.clone(), start)).client());
    one.call_tool("say", json!({})).await.unwrap();
    let early = two.call_tool("say", json!({})).await.unwrap_err();
    assert!(early.is_retriable(), "{early}");
    let _second = serve(&path);
    first.abort();
    while upstream.times_opened() < 2 {
        let late = one.call_tool("say", json!({})).await;
        // Maybe the first server took the request, maybe none did: the second server must not answer it.
        if upstream.times_opened() == 2 {
            assert!(late.unwrap_err().is_retriable());
        }
    }
    let late = one.call_tool("say", json!({})).await.unwrap_err();
    assert!(late.message.contains("was not sent"), "{late}");
    two.call_tool("say", json!({})).await.unwrap();
}
