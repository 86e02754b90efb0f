//! A source host that lies: nothing outside of the folder of the copy is changed.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    sync::{Arc, Mutex},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use lmcp_core::{Replies, Request, Server, Service};
use lmcp_tools::{HostTools, Settings};
use lmcp_wire::{CallToolResult, Content};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::{Far, all, copy, hex, path};

/// The content of every file of this host.
const CONTENT: &[u8] = b"planted";

/// Lists any entries that a test wants.
#[derive(Default)]
struct Liar {
    listed: Mutex<Value>,
    /// A false hash of a file; `None`: the host tells the truth.
    hash: Option<&'static str>,
}

impl Service for Liar {
    fn call(&self, request: Request) -> Replies {
        let params: Value = request.params().unwrap();
        let arguments = &params["arguments"];
        let said = match arguments["what"].as_str().unwrap_or_default() {
            "look" => {
                json!({ "path": arguments["path"], "kind": "folder", "mode": 0o777, "stamp": "1-2-3" })
            }
            "list" => self.listed.lock().unwrap().clone(),
            _ => {
                let from = arguments["offset"].as_u64().unwrap_or_default();
                let rest = CONTENT.get(usize::try_from(from).unwrap_or(usize::MAX)..);
                let data = STANDARD.encode(rest.unwrap_or_default());
                let hash = hex(digest(&SHA256, CONTENT).as_ref());
                json!({ "data": data, "sha256": self.hash.unwrap_or(&hash) })
            }
        };
        let text = Content::text(said.to_string());
        Replies::done(CallToolResult::new(vec![text]))
    }
}

struct Evil {
    far: Far,
    liar: Arc<Liar>,
}

impl Evil {
    fn new() -> Self {
        Self::saying(Liar::default())
    }

    fn saying(liar: Liar) -> Self {
        let (liar, folder) = (Arc::new(liar), tempfile::tempdir().unwrap());
        let service: Arc<dyn Service> = Arc::clone(&liar) as _;
        let far = Far::new("evil", path::Kind::Http, folder, service, None);
        Self { far, liar }
    }

    /// Copies the entries that the host lists to a folder of another host.
    async fn copy(&self, listed: Value, to: &Far, name: &str) -> Result<Value, String> {
        *self.liar.listed.lock().unwrap() = listed;
        let over = json!({ "overwrite": true });
        copy((&self.far, "folder"), (to, name), over).await
    }
}

fn file(path: &str) -> Value {
    let size = CONTENT.len();
    json!({ "path": path, "kind": "file", "size": size, "mode": 0o644, "stamp": "1-2-3" })
}

fn folder(path: &str, mode: u32) -> Value {
    json!({ "path": path, "kind": "folder", "mode": mode, "stamp": "1-2-3" })
}

fn link(path: &str, target: &str) -> Value {
    json!({ "path": path, "kind": "link", "mode": 0o777, "stamp": "1-2-3", "target": target })
}

/// Returns hosts of every kind, and a host with lmcp that is not confined.
fn targets() -> Vec<Far> {
    let mut targets = all();
    let tools = HostTools::new(Settings::default()).unwrap();
    let server = tools.add_to(Server::new("host", "0")).start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let open = Far::new("open", path::Kind::Http, folder, Arc::new(server), None);
    targets.push(open);
    targets
}

fn mode(path: &Path) -> u32 {
    let about = fs::metadata(path).unwrap();
    about.permissions().mode() & 0o7777
}

#[tokio::test]
async fn where_a_link_leads_is_no_option_of_a_command() {
    for to in targets() {
        fs::create_dir(to.path("victim")).unwrap();
        fs::write(to.path("victim/keys"), "ours").unwrap();
        let option = format!("-ft{}", to.path("victim").display());
        let listed = json!([link("keys", &option), link("-n", "--help"), file("-f")]);
        let said = Evil::new().copy(listed, &to, "new").await;
        let kept = fs::symlink_metadata(to.path("victim/keys")).unwrap();
        assert!(kept.is_file(), "{}: {said:?}", to.kind);
        assert!(said.is_ok(), "{}: {said:?}", to.kind);
        let leads_to = |name: &str| fs::read_link(to.path("new").join(name)).unwrap();
        assert_eq!(leads_to("keys"), Path::new(&option), "{}", to.kind);
        assert_eq!(leads_to("-n"), Path::new("--help"), "{}", to.kind);
    }
}

#[tokio::test]
async fn links_of_an_earlier_copy_are_replaced_and_never_followed() {
    for to in targets() {
        let kind = to.kind;
        fs::create_dir_all(to.path("outside/deep")).unwrap();
        fs::write(to.path("outside/rc"), "ours").unwrap();
        fs::set_permissions(to.path("outside"), fs::Permissions::from_mode(0o700)).unwrap();
        let evil = Evil::new();
        let links = json!([
            link("x", "../outside"),
            link("y", "../outside/rc"),
            link("z", "../outside"),
            link("none", "../outside/new"),
            link("closed", "../outside"),
            folder("sub", 0o755),
            link("sub/l", "../../outside"),
        ]);
        evil.copy(links, &to, "new").await.unwrap();
        let files = json!([
            folder("x", 0o755),
            file("x/keys"),
            file("y"),
            file("z"),
            file("none"),
            folder("closed", 0o500),
            folder("sub", 0o755),
            folder("sub/l", 0o755),
            link("sub/l/deep", "nowhere"),
        ]);
        let said = evil.copy(files, &to, "new").await;
        let outside = fs::read_dir(to.path("outside")).unwrap().flatten();
        let mut outside: Vec<_> = outside.map(|entry| entry.file_name()).collect();
        outside.sort();
        assert_eq!(outside, ["deep", "rc"], "{kind}: {said:?}");
        assert_eq!(fs::read(to.path("outside/rc")).unwrap(), b"ours", "{kind}");
        assert!(!to.path("outside/deep").is_symlink(), "{kind}");
        assert_eq!(mode(&to.path("outside")), 0o700, "{kind}");
        assert!(said.is_ok(), "{kind}: {said:?}");
        for name in ["x/keys", "y", "z", "none"] {
            let about = fs::symlink_metadata(to.path("new").join(name)).unwrap();
            assert!(about.is_file(), "{kind}: {name}");
        }
        let made = fs::symlink_metadata(to.path("new/closed")).unwrap();
        assert!(made.is_dir(), "{kind}");
        assert_eq!(mode(&to.path("new/closed")), 0o500, "{kind}");
    }
}

#[tokio::test]
async fn a_link_on_the_way_to_a_folder_of_a_copy_is_not_followed_either() {
    for to in targets() {
        fs::create_dir(to.path("outside")).unwrap();
        fs::create_dir_all(to.path("new/x")).unwrap();
        // A link appears there after the folder has been found.
        let (link, outside) = (to.path("new/x"), to.path("outside"));
        to.trouble(move |_, what| {
            if what == "finish" && !link.is_symlink() {
                fs::remove_dir(&link).unwrap();
                symlink(&outside, &link).unwrap();
            }
            super::Fate::Well
        });
        let listed = json!([folder("x", 0o755), file("x/keys")]);
        let said = Evil::new().copy(listed, &to, "new").await;
        let planted = fs::read_dir(to.path("outside")).unwrap().count();
        assert_eq!(planted, 0, "{}: {said:?}", to.kind);
        assert!(said.is_err(), "{}: {said:?}", to.kind);
    }
}

#[tokio::test]
async fn folders_of_a_copy_are_open_to_nobody_who_could_not_write_a_new_one() {
    for to in targets() {
        let kind = to.kind;
        fs::create_dir_all(to.path("new/there")).unwrap();
        for name in ["new", "new/there"] {
            fs::set_permissions(to.path(name), fs::Permissions::from_mode(0o710)).unwrap();
        }
        let listed = json!([
            folder("there", 0o500),
            folder("open", 0o6777),
            folder("closed", 0o577)
        ]);
        for name in ["new", "fresh"] {
            let said = Evil::new().copy(listed.clone(), &to, name).await;
            assert!(said.is_ok(), "{kind}: {said:?}");
            let modes = ["open", "closed"].map(|part| mode(&to.path(name).join(part)));
            assert_eq!(modes, [0o755, 0o555], "{kind}: {name}");
        }
        // Entries that were there before keep their modes.
        let modes = ["new", "new/there", "fresh"].map(|name| mode(&to.path(name)));
        assert_eq!(modes, [0o710, 0o710, 0o755], "{kind}");
    }
}

#[tokio::test]
async fn a_file_that_is_said_to_be_larger_than_it_is_fails_at_once() {
    for to in targets() {
        for size in [CONTENT.len() as u64 + 1, 1 << 60, u64::MAX] {
            let mut listed = json!([file("a"), file("b")]);
            for entry in listed.as_array_mut().unwrap() {
                entry["size"] = size.into();
            }
            let words = Evil::new().copy(listed, &to, "new").await.unwrap_err();
            assert!(
                words.contains("other bytes than were asked for"),
                "{}: {words}",
                to.kind
            );
            assert!(!to.path("new").exists(), "{}", to.kind);
        }
    }
}

#[tokio::test]
async fn a_word_that_is_no_hash_is_not_taken_for_one() {
    for to in targets() {
        let liar = Liar {
            hash: Some("any"),
            ..Liar::default()
        };
        let evil = Evil::saying(liar);
        let said = evil.copy(json!([file("a")]), &to, "new").await;
        let words = said.unwrap_err();
        assert!(words.contains("has another hash"), "{}: {words}", to.kind);
    }
}
