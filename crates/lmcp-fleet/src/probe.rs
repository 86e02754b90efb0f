//! The task beside every host: checks whether the host is up, often while it is up and less and less often while it is down.

use std::sync::Arc;

use tokio::{sync::Semaphore, time::sleep};

use crate::host::{Host, Try};

/// Checks a host until the task is aborted. All hosts share the places for checks.
pub(crate) async fn watch(host: Arc<Host>, places: Arc<Semaphore>) {
    loop {
        let pause = host.next_look();
        if !pause.is_zero() {
            tokio::select! {
                () = sleep(pause) => {}
                // The state has changed, so the next check may have another time.
                () = host.woken.notified() => continue,
            }
        }
        let Ok(_place) = places.acquire().await else {
            return;
        };
        host.look(Try::Due).await;
    }
}
