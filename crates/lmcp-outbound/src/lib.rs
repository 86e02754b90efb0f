//! Connections to other machines: everything in lmcp that goes out over HTTP goes through here.
//!
//! An [`Outbound`] knows the certificates to trust, our own certificate, and the proxy to use. It takes a [`Url`], looks up the
//! host, has every address checked by a [`Guard`], and connects to one of the checked addresses. The result is a
//! [`Connection`]: HTTP/1.1, one request at a time. The caller handles redirects, sessions, retries and the meaning of an
//! answer.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use lmcp_outbound::{Anywhere, Outbound, Settings, Url, http};
//!
//! let settings = Settings::from_env(|name| std::env::var(name).ok());
//! let outbound = Outbound::new(settings);
//! let url = Url::parse("https://example.org/page")?;
//! let until = tokio::time::Instant::now() + std::time::Duration::from_secs(10);
//! let mut connection = outbound.connect(&url, &Anywhere, until).await?;
//! let request = http::Request::get(&*url.target())
//!     .header("host", url.authority())
//!     .body(bytes::Bytes::new())?;
//! let response = connection.send(request, std::future::pending()).await?;
//! let body = lmcp_outbound::whole(response.into_body(), 1 << 20).await?;
//! # Ok(())
//! # }
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `url/` | URLs, read as browsers read them |
//! | `settings`, `tls` | the certificates to trust, and our own |
//! | `proxies`, `network` | the proxy for each URL |
//! | `connect`, `guard`, `tunnel` | from a URL to a connection |
//! | `connection`, `body` | requests and their answers |
//! | `upgrade` | a connection that goes on in another protocol |
//! | `limits` | every bound, and what happens at it |

mod body;
mod connect;
mod connection;
mod error;
mod guard;
mod limits;
mod network;
mod proxies;
mod settings;
mod tls;
mod tunnel;
mod upgrade;
mod url;

pub use body::{Unread, whole};
pub use connect::Outbound;
pub use connection::{Connection, Duplex, Failed, Stream};
pub use error::{Error, chain};
pub use guard::{Anywhere, AudienceCheck, Guard, Lookup};
pub use http;
/// The body of an answer, as it comes.
pub use hyper::body::Incoming;
pub use network::Network;
pub use proxies::Proxies;
pub use settings::{ClientCertificate, Settings};
pub use upgrade::Upgrade;
pub use url::{Flaw, Host, Scheme, Url};
