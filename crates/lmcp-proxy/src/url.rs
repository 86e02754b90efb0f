//! The loop between stdio and a URL: one thread, which also moves the bytes of every connection. `proxy.rs` decides what is
//! done.
//!
//! Stdin and stdout are polled before use, as in `socket.rs`; a thread tells when to poll again.

use std::{io, pin::Pin, time::Instant};

use lmcp_client::{Endpoint, Error, Event};
use tokio::{
    task::yield_now,
    time::{sleep_until, timeout},
};

use crate::{
    Ending,
    limits::{GOOD_BYE, LOOK, Limits},
    proxy::{Link, Proxy, Server},
    watch::{ALIVE, INPUT, OUTPUT, Watch},
};

pub(crate) struct Driver<'a> {
    endpoint: &'a Endpoint,
    proxy: Proxy<'a, Site>,
}

/// The server behind the URL.
type Site = Box<lmcp_client::Link>;

type Opened = Result<Site, Error>;
type Opening = Pin<Box<dyn Future<Output = Opened>>>;

impl Server for Site {
    type Opening = Opening;

    fn send(&mut self, line: Vec<u8>) {
        lmcp_client::Link::send(self, line);
    }

    fn has_room(&self, _: &Limits) -> bool {
        lmcp_client::Link::has_room(self)
    }
}

enum News {
    Opened(Opened),
    Event(Event),
}

impl<'a> Driver<'a> {
    pub(crate) fn new(endpoint: &'a Endpoint, note: &'a mut dyn FnMut(&str)) -> Self {
        let proxy = Proxy::new(note);
        Self { endpoint, proxy }
    }

    pub(crate) async fn run(mut self) -> io::Result<Ending> {
        let watch = Watch::new()?;
        loop {
            let proxy = &mut self.proxy;
            let output = proxy.client.output_now();
            proxy.client.on_output(output);
            if !proxy.reads_client() {
                proxy.client.look_for_writer();
            } else if proxy.client.has_more() {
                proxy.client.read();
            }
            while proxy.hear_client() {}
            proxy.turn();
            if proxy.is_due() {
                let endpoint = self.endpoint.clone();
                let opening: Opening = Box::pin(async move { endpoint.open().await.map(Box::new) });
                proxy.link = Link::Opening(opening);
            }
            if let Some(ending) = proxy.broke_off().or_else(|| proxy.ended()) {
                self.part().await;
                return Ok(ending);
            }
            self.wait(&watch).await;
        }
    }

    /// Waits until there is something to do.
    async fn wait(&mut self, watch: &Watch) {
        let proxy = &mut self.proxy;
        let reads_client = proxy.reads_client();
        let has_more = reads_client && proxy.client.has_more() || proxy.client.can_write();
        let mut wanted = ALIVE;
        if reads_client {
            wanted |= INPUT;
        }
        if !proxy.client.out.is_empty() {
            wanted |= OUTPUT;
        }
        // No event tells that a client that is not read has closed its end, so the loop checks from time to time.
        let is_held = !reads_client && !proxy.client.is_leaving();
        let look = is_held.then(|| Instant::now() + LOOK);
        let deadline = [proxy.deadline(), look].into_iter().flatten().min();
        let until = tokio::time::Instant::from_std(deadline.unwrap_or_else(Instant::now));
        let takes = proxy.client_takes();
        tokio::select! {
            biased;
            news = news(&mut proxy.link), if takes => self.hear(news),
            // The connections get their turn first.
            () = yield_now(), if has_more => {}
            () = watch.changed(wanted), if !has_more => {}
            () = sleep_until(until), if deadline.is_some() => {}
        }
    }

    fn hear(&mut self, news: News) {
        let proxy = &mut self.proxy;
        match news {
            News::Opened(Ok(site)) => proxy.attached(site),
            News::Opened(Err(Error::Refused(why))) | News::Event(Event::Refused(why)) => {
                proxy.leave_for_good(why);
            }
            News::Event(Event::Unauthorized(why)) => {
                proxy.leave_for_good(format!(
                    "{why}; `--token-file FILE` or LMCP_TOKEN passes one"
                ));
            }
            News::Opened(Err(err)) => proxy.miss(&err.to_string()),
            News::Event(Event::Line(line) | Event::Failure(line)) => {
                proxy.relay.server_line(line.into(), Instant::now());
            }
            News::Event(Event::Unsent(line)) => proxy.unsent.push(line.into()),
            News::Event(Event::Lost(why)) => proxy.lose(&format!("the server went away: {why}")),
            News::Event(_) => {}
        }
        proxy.carry_out();
    }

    /// Closes the connection, and waits only a short time for that.
    async fn part(self) {
        if let Link::On(site, _) = self.proxy.link {
            let _ = timeout(GOOD_BYE, site.close()).await;
        }
    }
}

/// Returns the next news of the server. Waits for ever while there is none.
async fn news(link: &mut Link<Site>) -> News {
    match link {
        Link::Away(_) => std::future::pending().await,
        Link::Opening(opening) => News::Opened(opening.await),
        Link::On(site, _) => News::Event(site.next().await),
    }
}
