//! A child of `chaos-host` with our own client: `chaos-child LABEL REVISION LMCP`. It calls tools until its input ends, and says what
//! came of each call, as `clients/chaos/child.py` does with the Python SDK.

use std::{
    cell::Cell,
    env,
    error::Error,
    io::{Write as _, stdin, stdout},
    time::{Duration, Instant},
};

use lmcp::{Client, client, upstream};
use serde_json::{Value, json};
use tokio::sync::watch;

/// Calls at a time.
const WORKERS: usize = 3;

/// Longer than any run.
const HOUR: Duration = Duration::from_secs(3600);

/// A call that was not sent waits for a host for 30 s, and then it is told so.
const DEADLINE: Duration = Duration::from_secs(40);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [label, revision, lmcp] = &args[..] else {
        return Err("usage: chaos-child LABEL REVISION LMCP".into());
    };
    let builder = Client::builder().named("chaos-child", env!("CARGO_PKG_VERSION"));
    let target = upstream::command(lmcp).arg("proxy");
    let client = builder
        .version(revision.parse()?)
        .timeout(HOUR)
        .connect(target)
        .await?;
    let (stop, stopped) = watch::channel(());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut stdin(), &mut std::io::sink());
        drop(stop);
    });
    let number = Cell::new(0);
    let [a, b, c] = [(); WORKERS].map(|()| note(&client, label, &number, stopped.clone()));
    tokio::join!(a, b, c, wait(&client, stopped.clone()));
    say(&json!({ "done": true }))
}

/// Notes keys, one after the other.
async fn note(client: &Client, label: &str, number: &Cell<u64>, stopped: watch::Receiver<()>) {
    while stopped.has_changed().is_ok() {
        number.set(number.get() + 1);
        let key = format!("{label}-{}", number.get());
        let begin = Instant::now();
        let call = client.call_tool("note", json!({ "key": key }));
        let outcome = match tokio::time::timeout(DEADLINE, call).await {
            Err(_) => json!({ "wrong": "it was not answered in time" }),
            Ok(Err(err)) => failed(&err),
            Ok(Ok(result)) => {
                let text = result.content.first().and_then(|content| content.as_text());
                json!({ "result": text })
            }
        };
        tell(outcome, &key, begin);
    }
}

/// Keeps one call waiting at all times, so that a host never ends without one.
async fn wait(client: &Client, mut stopped: watch::Receiver<()>) {
    while stopped.has_changed().is_ok() {
        let begin = Instant::now();
        tokio::select! {
            called = client.call_tool("wait", json!({})) => {
                let outcome = called.map_or_else(|err| failed(&err), |_| json!({ "wrong": "it has not waited" }));
                tell(outcome, "wait", begin);
            }
            _ = stopped.changed() => {}
        }
    }
}

fn failed(err: &client::Error) -> Value {
    let words = err.to_string();
    if err.is_retriable() {
        json!({ "lost": words })
    } else {
        json!({ "wrong": words })
    }
}

fn tell(mut outcome: Value, key: &str, begin: Instant) {
    outcome["key"] = key.into();
    outcome["seconds"] = begin.elapsed().as_secs_f64().into();
    let _ = say(&outcome);
}

fn say(line: &Value) -> Result<(), Box<dyn Error>> {
    Ok(writeln!(stdout(), "{line}")?)
}
