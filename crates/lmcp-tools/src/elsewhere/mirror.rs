//! A folder that stands for `/` of another host. It holds copies of the files that a call needs, under their paths there.
//!
//! The tools on files are confined to the folder as to a root, so no path of the other host leads out of it.

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
    /// Opens a folder. `start` is where relative paths begin on the other host, `home` what `~` is there.
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
            locks: Locks::default(),
            history: None,
            commands: None,
            settings,
        };
        Ok(Self {
            host: Arc::new(host),
            folder: folder.to_owned(),
        })
    }

    /// Returns the path on the other host for a path of a call.
    ///
    /// # Errors
    /// The text is no path, in the words of the tools.
    pub async fn path_there(&self, path: &str, cx: &Cx) -> ToolResult<PathBuf> {
        let here = self.host.here(cx, [path]).await?;
        Ok(self.host.roots.find(&here, path)?.shown().to_owned())
    }

    /// Checks that the folder in which a command is to run exists.
    ///
    /// # Errors
    /// The folder does not exist, in the words of the tools.
    pub async fn expect_folder(&self, path: &str, cx: &Cx) -> ToolResult<()> {
        let here = self.host.here(cx, [path]).await?;
        let place = self.host.roots.find(&here, path)?;
        let opened = place.open_dir();
        opened.map(drop).map_err(|err| place.failed("work in", err))
    }

    /// Runs `read_file`.
    ///
    /// # Errors
    /// The errors of the tool.
    pub async fn read_file(&self, args: read::Args, cx: Cx) -> ToolResult<Answer<read::Files>> {
        read::read(self.host.clone(), args, cx).await
    }

    /// Runs `write_file`.
    ///
    /// # Errors
    /// The errors of the tool.
    pub async fn write_file(
        &self,
        args: write::Args,
        cx: Cx,
    ) -> ToolResult<Answer<write::Written>> {
        write::write(self.host.clone(), args, cx).await
    }

    /// Runs `edit_file`.
    ///
    /// # Errors
    /// The errors of the tool.
    pub async fn edit_file(&self, args: edit::Args, cx: Cx) -> ToolResult<Answer<edit::Edits>> {
        edit::edit(self.host.clone(), args, cx).await
    }

    /// Runs `list_dir`.
    ///
    /// # Errors
    /// The errors of the tool.
    pub async fn list_dir(&self, args: list::Args, cx: Cx) -> ToolResult<Answer<list::Listing>> {
        list::list(self.host.clone(), args, cx).await
    }

    /// Runs `search_files`.
    ///
    /// # Errors
    /// The errors of the tool.
    pub async fn search_files(
        &self,
        args: search::Args,
        cx: Cx,
    ) -> ToolResult<Answer<search::SearchResult>> {
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        search::search(self.host.clone(), args, cx, turns).await
    }

    /// Runs `systeminfo`, as far as copies of files are enough for it.
    ///
    /// # Errors
    /// The errors of the tool.
    pub async fn systeminfo(
        &self,
        args: systeminfo::Args,
        cx: Cx,
    ) -> ToolResult<Answer<systeminfo::SystemInfo>> {
        systeminfo::read_copies(&self.folder, args, cx).await
    }
}
