//! The folder in which the relative paths of a call begin: that of its session, if the tools may use it.

use std::path::{Path, PathBuf};

use lmcp_core::{Caller, Cx, ToolError, ToolResult};

use crate::{
    Host,
    roots::{StandIn, expand_home, own_home},
};

/// The folder in which relative paths begin, and the umask for new files. The default is the first root, or the folder in
/// which the server was started, and the umask of the server alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Here {
    folder: Option<PathBuf>,
    /// The home on another host, if a folder stands for that host. `None`: `~` is the home of the server's user.
    home: Option<PathBuf>,
    umask: u32,
}

impl Here {
    /// Joins a path to the folder. `~` is the home.
    pub(crate) fn join(&self, path: &str) -> PathBuf {
        let home = self.home.clone().or_else(own_home);
        let path = expand_home(path, home.as_deref());
        match &self.folder {
            Some(folder) => folder.join(path),
            None => path,
        }
    }

    /// Returns the value for absolute paths of a call.
    pub(crate) fn anywhere(cx: &Cx) -> Self {
        Self {
            folder: None,
            home: None,
            umask: cx.caller().umask(),
        }
    }

    /// Returns the bits that the umask of the session takes from the modes of new files. The umask of the server counts as
    /// well.
    pub(crate) fn umask(&self) -> u32 {
        self.umask
    }
}

impl Host {
    /// Returns where these paths of a call begin. The client may be asked for its folders, but not if all paths are
    /// absolute.
    ///
    /// # Errors
    /// A path is longer than the kernel takes. Errors and results repeat paths, so such a path is refused at once.
    pub(crate) async fn here<'a>(
        &self,
        cx: &Cx,
        paths: impl IntoIterator<Item = &'a str>,
    ) -> ToolResult<Here> {
        let mut is_relative = false;
        for path in paths {
            expect_length(path)?;
            is_relative |= expand_home(path, own_home().as_deref()).is_relative();
        }
        if let Some(StandIn { start, home }) = self.roots.stand_in() {
            return Ok(Here {
                folder: Some(start.clone()),
                home: Some(home.clone()),
                umask: 0,
            });
        }
        if !is_relative {
            return Ok(Here::anywhere(cx));
        }
        let mut folders = cx.folders().await.into_iter();
        Ok(Here {
            folder: folders.find(|folder| self.may_work_in(folder)),
            ..Here::anywhere(cx)
        })
    }

    /// Returns the folder for a call that names none.
    pub(crate) async fn folder(&self, cx: &Cx) -> ToolResult<PathBuf> {
        let Some(folder) = self.here(cx, ["."]).await?.folder else {
            return self.own_folder();
        };
        if folder.is_dir() {
            return Ok(folder);
        }
        let words = format!(
            "the folder of this session, `{}`, is not there any more",
            folder.display()
        );
        Err(ToolError::new(words).hint("name the folder, in `cwd`, or make it again"))
    }

    /// Returns the folder in which relative paths of a caller begin, as far as that is known before the client was asked for
    /// its roots.
    pub(crate) fn known_folder(&self, caller: &Caller) -> ToolResult<PathBuf> {
        match caller.folder().filter(|folder| self.may_work_in(folder)) {
            Some(folder) => Ok(folder.to_owned()),
            None => self.own_folder(),
        }
    }

    /// Returns the first root, or the folder in which the server was started.
    fn own_folder(&self) -> ToolResult<PathBuf> {
        let first = self.roots.paths().next().map(Path::to_owned);
        let folder = first.map_or_else(std::env::current_dir, Ok);
        folder
            .map_err(|err| ToolError::new("the server has no working folder any more").source(err))
    }

    /// Returns whether a folder lies in a root, if there are roots. The kernel decides.
    fn may_work_in(&self, folder: &Path) -> bool {
        if self.roots.paths().next().is_none() {
            return true;
        }
        let place = folder
            .to_str()
            .map(|folder| self.roots.find(&Here::default(), folder));
        place.is_some_and(|place| place.is_ok_and(|place| place.open_dir().is_ok()))
    }
}

/// The longest path that the kernel takes, in bytes.
const LONGEST_PATH: usize = 4096;

fn expect_length(path: &str) -> ToolResult<()> {
    if path.len() < LONGEST_PATH {
        return Ok(());
    }
    let begin = &path[..path.floor_char_boundary(60)];
    let words = format!("the path `{begin}…` has {} bytes", path.len());
    Err(ToolError::new(words).hint("a path has fewer than 4096"))
}
