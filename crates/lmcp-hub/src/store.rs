//! Keeps listings of servers, and what was seen of them, on disk: a hub that starts shows them at once, and starts no server
//! for that.

#[cfg_attr(unix, path = "store/unix.rs")]
#[cfg_attr(windows, path = "store/windows.rs")]
mod system;

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    config::ServerConfig,
    listing::Listing,
    names::{fnv, slug},
    pins::Pins,
};

/// A folder with two files for every server: `SLUG.json` holds its listing, `SLUG.seen` the definitions that were first
/// seen.
#[derive(Clone, Debug)]
pub(crate) struct Store(pub(crate) PathBuf);

#[derive(Serialize, Deserialize)]
struct Kept<L> {
    /// Describes how the server is reached. If that changes, the listing is not valid any more.
    reach: String,
    /// `None`: the server was tried, and never listed its items.
    listing: Option<L>,
}

/// The stored knowledge about a server.
#[derive(Debug)]
pub(crate) enum Memory {
    /// The server was never tried.
    Nothing,
    /// The server was tried, and did not list its items.
    Tried,
    Listing(Listing),
}

/// Identifies a version of a file. `None`: there is no file.
pub(crate) type Stamp = Option<system::Version>;

impl Store {
    /// Reads what was kept of a server, if it is still reached in the same way.
    pub(crate) fn read(&self, name: &str, config: &ServerConfig) -> Memory {
        let kept: Option<Kept<Listing>> = read(&self.catalogue(name)).unwrap_or_default();
        match kept.filter(|kept| kept.reach == reach(config)) {
            None => Memory::Nothing,
            Some(Kept { listing: None, .. }) => Memory::Tried,
            Some(Kept {
                listing: Some(listing),
                ..
            }) => Memory::Listing(listing),
        }
    }

    /// Returns the listing that was last kept of a server, however the server is reached.
    pub(crate) fn listing(&self, name: &str) -> io::Result<Option<Listing>> {
        let kept: Option<Kept<Listing>> = read(&self.catalogue(name))?;
        Ok(kept.and_then(|kept| kept.listing))
    }

    /// Keeps the listing of a server; `None`: keeps that the server was tried.
    pub(crate) fn write(
        &self,
        name: &str,
        config: &ServerConfig,
        listing: Option<&Listing>,
    ) -> io::Result<()> {
        let reach = reach(config);
        self.replace(&self.catalogue(name), &Kept { reach, listing })
    }

    /// Returns the definitions that were first seen of a server, or approved since. `None`: nobody has seen any.
    pub(crate) fn pins(&self, name: &str) -> io::Result<Option<Pins>> {
        read(&self.seen(name))
    }

    /// Returns the servers that somebody has seen before.
    pub(crate) fn known(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            let path = entry?.path();
            if path.extension().is_some_and(|kind| kind == SEEN)
                && let Some(pins) = read::<Pins>(&path)?
            {
                names.push(pins.server);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Changes the seen definitions of a server. Other processes that do the same wait.
    pub(crate) fn change_pins(
        &self,
        name: &str,
        change: impl FnOnce(Option<Pins>) -> Pins,
    ) -> io::Result<Pins> {
        let _alone = self.lock()?;
        let before = self.pins(name)?;
        let now = change(before.clone());
        if before.as_ref() != Some(&now) {
            self.replace(&self.seen(name), &now)?;
        }
        Ok(now)
    }

    /// Returns a stamp that changes when the seen definitions of a server are written.
    pub(crate) fn stamp(&self, name: &str) -> Stamp {
        let found = fs::metadata(self.seen(name)).ok()?;
        Some(system::version(&found))
    }

    /// Writes a file whole or not at all.
    fn replace(&self, path: &Path, content: &impl Serialize) -> io::Result<()> {
        self.make()?;
        let text = serde_json::to_vec(content)?;
        if text.len() as u64 > MOST_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let draft = path.with_extension(format!("{}.new", std::process::id()));
        let _ = fs::remove_file(&draft);
        let mut options = system::private_file();
        let mut file = options.write(true).create_new(true).open(&draft)?;
        let written = file
            .write_all(&text)
            .and_then(|()| fs::rename(&draft, path));
        if written.is_err() {
            let _ = fs::remove_file(draft);
        }
        written
    }

    fn make(&self) -> io::Result<()> {
        system::private_folder().recursive(true).create(&self.0)
    }

    /// Locks the folder until the file is dropped. Every holder only reads and writes a small file meanwhile.
    fn lock(&self) -> io::Result<File> {
        self.make()?;
        let mut options = system::private_file();
        options.create(true).truncate(false).write(true);
        let file = options.open(self.0.join("lock"))?;
        file.lock()?;
        Ok(file)
    }

    fn catalogue(&self, name: &str) -> PathBuf {
        self.0.join(format!("{}.json", slug(name)))
    }

    fn seen(&self, name: &str) -> PathBuf {
        self.0.join(format!("{}.{SEEN}", slug(name)))
    }
}

/// Reads a file; returns `None` if the file does not exist.
fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let file = match File::open(path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut text = String::new();
    file.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    // The message of the decoder may show text of a server.
    let broken = |_| {
        let words = format!("{} is broken; remove it to begin anew", path.display());
        io::Error::new(io::ErrorKind::InvalidData, words)
    };
    serde_json::from_str(&text).map(Some).map_err(broken)
}

fn reach(config: &ServerConfig) -> String {
    let text = serde_json::to_string(&config.reach).unwrap_or_default();
    format!("{:016x}", fnv(&text))
}

const SEEN: &str = "seen";

/// The length of the longest file.
const MOST_BYTES: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Reach;

    #[test]
    fn what_is_kept_is_good_for_the_same_server_only() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store(folder.path().join("hub"));
        let config = ServerConfig::new(Reach::Socket("/x".into()));
        let tool = serde_json::value::RawValue::from_string("{\"name\": \"a\"}".to_owned());
        let listing = Listing {
            tools: vec![tool.unwrap()],
            ..Listing::default()
        };
        assert!(matches!(store.read("a/b", &config), Memory::Nothing));
        store.write("a/b", &config, None).unwrap();
        assert!(matches!(store.read("a/b", &config), Memory::Tried));
        store.write("a/b", &config, Some(&listing)).unwrap();
        let Memory::Listing(kept) = store.read("a/b", &config) else {
            panic!("it was kept");
        };
        assert_eq!(kept.tools.len(), 1);
        let other = ServerConfig::new(Reach::Socket("/y".into()));
        assert!(matches!(store.read("a/b", &other), Memory::Nothing));
        assert_eq!(fs::read_dir(&store.0).unwrap().count(), 1);
    }
}
