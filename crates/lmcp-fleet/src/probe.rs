//! The task beside every host: looks whether it is there, often while it is up and ever more seldom while it is down.

use std::sync::Arc;

use tokio::{sync::Semaphore, time::sleep};

use crate::host::{Host, Try};

/// Looks at a host until it is aborted. All hosts share the places for looking.
pub(crate) async fn watch(host: Arc<Host>, places: Arc<Semaphore>) {
    loop {
        let pause = host.next_look();
        if !pause.is_zero() {
            tokio::select! {
                () = sleep(pause) => {}
                // Something has changed, so another time may be right.
                () = host.woken.notified() => continue,
            }
        }
        let Ok(_place) = places.acquire().await else {
            return;
        };
        host.look(Try::Due).await;
    }
}
