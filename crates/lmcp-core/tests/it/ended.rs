//! A layer hears how every request ended, and takes nothing from what is said before that.

use std::sync::{Arc, Mutex};

use lmcp_core::{Cx, Ended, NoArgs, Tool, client::Event};
use serde_json::json;

use crate::support::{server, watched};

async fn speak(_: NoArgs, cx: Cx) -> &'static str {
    cx.progress(1).step("speaking");
    "spoken"
}

#[tokio::test]
async fn a_layer_hears_each_end_once_and_progress_passes() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (guards, mut watcher) = watched();
    let hang = Tool::new("hang", move |_: NoArgs, _: Cx| {
        let guards = guards.clone();
        async move {
            let _held = guards.hold();
            std::future::pending::<&'static str>().await
        }
    });
    let ends = Arc::clone(&heard);
    let client = server()
        .tool(Tool::new("speak", speak).read_only())
        .tool(hang.read_only())
        .layer(move |request, next| {
            let ends = Arc::clone(&ends);
            next.call(request).on_end(move |ended| {
                ends.lock().unwrap().push(match ended {
                    Ended::Done(_) => "done",
                    Ended::Failed(_) => "failed",
                    _ => "dropped",
                });
            })
        })
        .start()
        .unwrap()
        .client();

    let mut call = client.start_tool("speak", json!({}));
    let mut steps = 0;
    while let Some(event) = call.next().await {
        steps += usize::from(matches!(event, Event::Progress(_)));
    }
    assert_eq!(steps, 1);

    client.call_tool("nothing", json!({})).await.unwrap_err();

    let mut call = client.start_tool("hang", json!({}));
    tokio::select! {
        _ = call.next() => panic!("it hangs"),
        () = watcher.started() => {}
    }
    drop(call);
    watcher.dropped().await;
    assert_eq!(*heard.lock().unwrap(), ["done", "failed", "dropped"]);
}
