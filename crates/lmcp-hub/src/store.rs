//! What servers offer, kept on disk: a hub that starts serves it at once, and starts no server for it.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

use crate::{
    catalog::Listing,
    config::ServerConfig,
    names::{fnv, slug},
};

/// A folder with a file for every server.
#[derive(Clone, Debug)]
pub(crate) struct Store(pub(crate) PathBuf);

#[derive(Serialize, Deserialize)]
struct Kept<L> {
    /// Of how the server is reached: another one offers other things.
    reach: String,
    listing: L,
}

impl Store {
    /// What was kept of a server.
    pub(crate) fn read(&self, name: &str, config: &ServerConfig) -> Option<Listing> {
        let text = fs::read_to_string(self.path(name)).ok()?;
        let kept: Kept<Listing> = serde_json::from_str(&text).ok()?;
        (kept.reach == reach(config)).then_some(kept.listing)
    }

    /// Keeps it, whole or not at all.
    pub(crate) fn write(
        &self,
        name: &str,
        config: &ServerConfig,
        listing: &Listing,
    ) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0)?;
        let reach = reach(config);
        let text = serde_json::to_vec(&Kept { reach, listing })?;
        let path = self.path(name);
        let draft = path.with_extension(format!("{}.new", std::process::id()));
        let _ = fs::remove_file(&draft);
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft)?;
        let written = file
            .write_all(&text)
            .and_then(|()| fs::rename(&draft, path));
        if written.is_err() {
            let _ = fs::remove_file(draft);
        }
        written
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(format!("{}.json", slug(name)))
    }
}

fn reach(config: &ServerConfig) -> String {
    let text = serde_json::to_string(&config.reach).unwrap_or_default();
    format!("{:016x}", fnv(&text))
}

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
        assert!(store.read("a/b", &config).is_none());
        store.write("a/b", &config, &listing).unwrap();
        store.write("a/b", &config, &listing).unwrap();
        assert_eq!(store.read("a/b", &config).unwrap().tools.len(), 1);
        let other = ServerConfig::new(Reach::Socket("/y".into()));
        assert!(store.read("a/b", &other).is_none());
        assert_eq!(fs::read_dir(&store.0).unwrap().count(), 1);
    }
}
