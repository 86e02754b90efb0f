//! A wire between a client and a server that can be cut at any byte.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use lmcp_core::Server;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::Notify,
    task::JoinSet,
};

use crate::support::{Running, serve_at};

pub(crate) struct Wire {
    pub(crate) address: SocketAddr,
    plan: Arc<Plan>,
    _moving: JoinSet<()>,
}

#[derive(Default)]
struct Plan {
    server: Mutex<Option<SocketAddr>>,
    /// The answer to a request that contains this text is cut after this number of bytes.
    cut: Mutex<Option<(String, usize)>>,
    cuts: AtomicUsize,
    opened: AtomicUsize,
    closed: AtomicUsize,
    /// Notified when all connections are cut.
    all: Notify,
}

impl Plan {
    fn wants_cut(&self, request: &[u8]) -> Option<usize> {
        let request = String::from_utf8_lossy(request);
        let mut cut = self.cut.lock().unwrap();
        cut.take_if(|(word, _)| request.contains(&**word))
            .map(|(_, bytes)| bytes)
    }
}

impl Wire {
    /// Returns a wire that leads nowhere yet.
    pub(crate) async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let plan = Arc::new(Plan::default());
        let mut moving = JoinSet::new();
        let shared = Arc::clone(&plan);
        moving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                // If there is no server, the wire closes the connection.
                let server = *shared.server.lock().unwrap();
                let Ok(server) = TcpStream::connect(server.expect("it leads somewhere")).await
                else {
                    continue;
                };
                connections.spawn(connect(client, server, Arc::clone(&shared)));
            }
        });
        Self {
            address,
            plan,
            _moving: moving,
        }
    }

    /// Starts a server of ours at the other end, which also accepts the wire's name as its host.
    pub(crate) async fn serve(&self, server: Server) -> Running {
        let name = self.address.to_string();
        let running = serve_at("127.0.0.1:0", server, |http| http.allow_host(&name)).await;
        *self.plan.server.lock().unwrap() = Some(running.address);
        running
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Cuts the answer to the next request that contains `word` after this number of bytes. Only once.
    pub(crate) fn cut(&self, word: &str, bytes: usize) {
        *self.plan.cut.lock().unwrap() = Some((word.to_owned(), bytes));
    }

    /// Cuts all connections, and waits until both sides can have noticed.
    pub(crate) async fn cut_all(&self) {
        let opened = self.plan.opened.load(Ordering::Relaxed);
        self.plan.all.notify_waiters();
        while self.plan.closed.load(Ordering::Relaxed) < opened {
            tokio::task::yield_now().await;
        }
        // Both sides get turns to see the end.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    /// Returns how often an answer was cut.
    pub(crate) fn cuts(&self) -> usize {
        self.plan.cuts.load(Ordering::Relaxed)
    }
}

async fn connect(client: TcpStream, server: TcpStream, plan: Arc<Plan>) {
    let (client_in, client_out) = client.into_split();
    let (server_in, server_out) = server.into_split();
    let budget = Mutex::new(None);
    plan.opened.fetch_add(1, Ordering::Relaxed);
    tokio::select! {
        () = up(client_in, server_out, &plan, &budget) => {}
        () = down(server_in, client_out, &plan, &budget) => {}
        () = plan.all.notified() => {}
    }
    plan.closed.fetch_add(1, Ordering::Relaxed);
}

async fn up(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    plan: &Plan,
    budget: &Mutex<Option<usize>>,
) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if let Some(bytes) = plan.wants_cut(&buffer[..count]) {
            *budget.lock().unwrap() = Some(bytes);
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

async fn down(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    plan: &Plan,
    budget: &Mutex<Option<usize>>,
) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let mut passed = count;
        let mut is_cut = false;
        if let Some(left) = &mut *budget.lock().unwrap() {
            passed = count.min(*left);
            *left -= passed;
            is_cut = passed < count;
        }
        let written = to.write_all(&buffer[..passed]).await;
        if is_cut {
            plan.cuts.fetch_add(1, Ordering::Relaxed);
        }
        if is_cut || written.is_err() {
            return;
        }
    }
}
