//! [`Cx::folders`]: the folders that a caller may mean by a relative path.

use std::{
    env,
    path::{Path, PathBuf},
};

use lmcp_wire::roots::Root;
use tokio::time::timeout;

use crate::{caller::Transport, cx::Cx, error::Failure, roots};

/// The most bytes of paths of roots that a session remembers.
const MOST_BYTES: usize = 1024;

impl Cx {
    /// The folders that a relative path of the caller may mean, the likeliest first. Use the first one that your tool may open. If there is
    /// none, use the folder of this process.
    ///
    /// lmcp knows the folder of the process that connected ([`Caller::folder`](crate::Caller::folder)). lmcp also asks a client that has roots
    /// for them, once in a session. If the folder of the process lies in one of the roots, it is the only answer. Otherwise the roots come
    /// first: a desktop program starts its servers in any folder. lmcp does not wait longer than
    /// [`Limits::roots_wait`](crate::Limits::roots_wait) for the roots, and does not ask in 2026-07-28, where a question would repeat the whole request.
    ///
    /// ```
    /// # use lmcp::{Cx, ToolResult};
    /// async fn count(_: lmcp::NoArgs, cx: Cx) -> ToolResult<String> {
    ///     let folder = cx.folders().await.into_iter().next();
    ///     let count = move || Ok(std::fs::read_dir(folder.unwrap_or(".".into()))?.count());
    ///     let count: std::io::Result<usize> = cx.blocking(count).await?;
    ///     Ok(format!("{} entries", count?))
    /// }
    /// ```
    pub async fn folders(&self) -> Vec<PathBuf> {
        let named = self.named_folders().await;
        let known = self.caller().folder().map(Path::to_owned);
        let own = match self.caller().transport() {
            // A server on stdio was started by its client, as a proxy is, so its own folder is that of the client.
            Transport::Stdio if !named.is_empty() => env::current_dir().ok(),
            _ => known.clone(),
        };
        match own {
            Some(own) if named.iter().any(|named| own.starts_with(named)) => vec![own],
            _ => named.into_iter().chain(known).collect(),
        }
    }

    /// Returns the roots that the client names. The client is asked once in a session.
    async fn named_folders(&self) -> Vec<PathBuf> {
        let Some(session) = self.0.request.session() else {
            return Vec::new();
        };
        if self.capabilities().roots.is_none() {
            return Vec::new();
        }
        let Ok(live) = session.live() else {
            return Vec::new();
        };
        let folders = live.folders();
        let asked = folders.get_or_try_init(async || {
            match timeout(self.0.engine.limits.roots_wait, self.roots()).await {
                Ok(Ok(roots)) => Ok(existing(roots).await),
                // The question could not be sent, so the client is asked again later.
                Ok(Err(err)) if matches!(err.failure(), Failure::Rpc(_)) => Err(()),
                // The client refused, or did not answer.
                Ok(Err(_)) | Err(_) => Ok(Box::default()),
            }
        });
        asked
            .await
            .map(|folders| folders.to_vec())
            .unwrap_or_default()
    }
}

/// Returns the roots that are folders on this machine. The check may block for a while: a folder may be on a slow file system.
async fn existing(roots: Vec<Root>) -> Box<[PathBuf]> {
    let look = move || {
        let mut bytes = 0;
        let folders = roots.iter().filter_map(|root| roots::folder(&root.uri));
        let folders = folders.filter(|folder| folder.is_dir());
        let fit = folders.take_while(|folder| {
            bytes += folder.as_os_str().len();
            bytes <= MOST_BYTES
        });
        fit.collect()
    };
    tokio::task::spawn_blocking(look).await.unwrap_or_default()
}
