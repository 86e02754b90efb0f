//! A folder that stands for `/` of another host. It holds copies of those files that a call needs, under their paths there.
//!
//! The tools on files are confined to it as they are to a root, so nothing that another host calls a file leads out of it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use lmcp_core::{Cx, Error, ToolResult};
use tokio::sync::Semaphore;

use crate::{
    Host, Settings,
    answer::Answer,
    files::{
        edit, list,
        locks::Locks,
        read,
        search::{self, AT_ONCE},
        write,
    },
    host::systeminfo,
    process::rights::Rights,
    roots::{Roots, StandIn},
    web,
};

/// A folder that stands for `/` of another host, for one call.
#[derive(Clone, Debug)]
pub struct Mirror {
    host: Arc<Host>,
    folder: PathBuf,
}

impl Mirror {
    /// A folder, and where on the other host relative paths begin and what `~` is there.
    ///
    /// # Errors
    /// The folder cannot be opened.
    pub fn new(folder: &Path, start: &Path, home: &Path) -> Result<Self, Error> {
        let stands_for = StandIn {
            start: start.to_owned(),
            home: home.to_owned(),
        };
        let settings = Settings::default();
        let host = Host {
            web: web::State::new(&settings.web),
            roots: Roots::standing_in(folder, stands_for)?,
            rights: Rights::default(),
            locks: Locks::new(),
            history: None,
            commands: None,
            settings,
        };
        Ok(Self {
            host: Arc::new(host),
            folder: folder.to_owned(),
        })
    }

    /// What a path of a call is called on the other host.
    ///
    /// # Errors
    /// It is no path, in the words of the tools.
    pub async fn path_there(&self, path: &str, cx: &Cx) -> ToolResult<PathBuf> {
        let here = self.host.here(cx, [path]).await?;
        Ok(self.host.roots.find(&here, path)?.shown().to_owned())
    }

    /// The folder that a command is to run in, if it is there.
    ///
    /// # Errors
    /// It is not, in the words of the tools.
    pub async fn expect_folder(&self, path: &str, cx: &Cx) -> ToolResult<()> {
        let here = self.host.here(cx, [path]).await?;
        let place = self.host.roots.find(&here, path)?;
        let opened = place.open_dir();
        opened.map(drop).map_err(|err| place.failed("work in", err))
    }

    /// `read_file`.
    ///
    /// # Errors
    /// Those of the tool.
    pub async fn read_file(&self, args: read::Args, cx: Cx) -> ToolResult<Answer<read::Files>> {
        read::read(self.host.clone(), args, cx).await
    }

    /// `write_file`.
    ///
    /// # Errors
    /// Those of the tool.
    pub async fn write_file(
        &self,
        args: write::Args,
        cx: Cx,
    ) -> ToolResult<Answer<write::Written>> {
        write::write(self.host.clone(), args, cx).await
    }

    /// `edit_file`.
    ///
    /// # Errors
    /// Those of the tool.
    pub async fn edit_file(&self, args: edit::Args, cx: Cx) -> ToolResult<Answer<edit::Edits>> {
        edit::edit(self.host.clone(), args, cx).await
    }

    /// `list_dir`.
    ///
    /// # Errors
    /// Those of the tool.
    pub async fn list_dir(&self, args: list::Args, cx: Cx) -> ToolResult<Answer<list::Listing>> {
        list::list(self.host.clone(), args, cx).await
    }

    /// `search_files`.
    ///
    /// # Errors
    /// Those of the tool.
    pub async fn search_files(
        &self,
        args: search::Args,
        cx: Cx,
    ) -> ToolResult<Answer<search::SearchResult>> {
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        search::search(self.host.clone(), args, cx, turns).await
    }

    /// `systeminfo`, as far as copies of files tell.
    ///
    /// # Errors
    /// Those of the tool.
    pub async fn systeminfo(
        &self,
        args: systeminfo::Args,
        cx: Cx,
    ) -> ToolResult<Answer<systeminfo::SystemInfo>> {
        systeminfo::read_copies(&self.folder, args, cx).await
    }
}
