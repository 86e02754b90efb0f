//! This program, put on a host behind ssh: where it lies there, and what a shell there does to take it in. No I/O.
//!
//! The folder is named after the version and the content. So a hub finds there what was pushed by a program of its own kind, and
//! nothing else.

use std::{
    fmt::{self, Write as _},
    process::Command,
    sync::{Arc, LazyLock},
};

use ring::digest::{SHA256, digest};

use crate::{
    config::{HostConfig, Times},
    path::{expect_trusted, quoted, ssh_args},
};

/// A program as hosts keep it.
#[derive(Clone, Debug)]
pub struct Pushed {
    /// Its folder, below `~/.cache/lmcp`.
    folder: String,
    sha256: String,
}

impl Pushed {
    /// A program of this version, by all its bytes.
    pub fn new(version: &str, program: &[u8]) -> Self {
        let mut sha256 = String::new();
        for byte in digest(&SHA256, program).as_ref() {
            let _ = write!(sha256, "{byte:02x}");
        }
        Self {
            folder: format!("{version}-{}", &sha256[..16]),
            sha256,
        }
    }

    /// The name of its folder.
    pub fn folder(&self) -> &str {
        &self.folder
    }

    /// Where it lies in the home of a user, for people.
    pub fn shown(&self) -> String {
        format!("~/{}", path_in(&self.folder))
    }

    /// The command that asks a host what it is: it writes what `uname -sm` does, and a line `there` if the program is there.
    ///
    /// # Errors
    /// Somebody else could have written its configuration of ssh.
    pub fn look(&self, host: &HostConfig) -> Result<Command, String> {
        expect_trusted(host)?;
        let path = path_in(&self.folder);
        let script = format!(r#"uname -sm; if [ -x "$HOME"/{path} ]; then echo there; fi"#);
        Ok(over_ssh(host, &script))
    }

    /// The command that takes the program in on its standard input. The file appears under its name when it is whole, checked
    /// and known to run there.
    pub fn take(&self, host: &HostConfig, program: &[u8]) -> Command {
        let Self { folder, sha256 } = self;
        let (bytes, checksum) = (program.len(), checksum(program));
        let script = [
            r#"fail() { echo "$1" >&2; exit 1; }; umask 077;"#,
            &format!(r#"d="$HOME"/.cache/lmcp/{folder}; t=$d/lmcp.$$;"#),
            r#"mkdir -p "$d" && chmod 700 "$d" || fail "cannot make the folder $d";"#,
            r#"trap "rm -f \"$t\"" 0; cat >"$t" || fail "cannot write $t";"#,
            &format!(r#"[ "$(wc -c <"$t")" -eq {bytes} ] || fail "not all of it came";"#),
            "if command -v sha256sum >/dev/null 2>&1;",
            &format!(r#"then s=$(sha256sum <"$t"); [ "${{s%% *}}" = {sha256} ];"#),
            &format!(r#"else s=$(cksum <"$t"); [ "${{s%% *}}" = {checksum} ]; fi"#),
            r#"|| fail "it came damaged";"#,
            r#"chmod 700 "$t" && "$t" --version >/dev/null || fail "it does not run there";"#,
            r#"mv -f "$t" "$d/lmcp" || fail "cannot rename $t""#,
        ];
        over_ssh(host, &script.join(" "))
    }
}

/// The folder of a program on hosts that it was pushed to: what [`HostConfig::pushed`] is. The program is read when somebody first
/// needs the name, and once for all hosts.
#[derive(Clone)]
pub struct PushedFolder(Arc<LazyLock<Option<String>, Find>>);

/// Finds the name.
type Find = Box<dyn FnOnce() -> Option<String> + Send>;

impl PushedFolder {
    /// The folder of the program that this function reads. `None`: it cannot be read, and none is looked for.
    pub fn of(read: impl FnOnce() -> Option<Pushed> + Send + 'static) -> Self {
        let find: Find = Box::new(|| read().map(|pushed| pushed.folder));
        Self(Arc::new(LazyLock::new(find)))
    }

    pub(crate) fn name(&self) -> Option<&str> {
        LazyLock::force(&self.0).as_deref()
    }
}

impl PartialEq for PushedFolder {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for PushedFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PushedFolder")
    }
}

/// A line for the shell of a host that runs `lmcp` of its PATH, or else the one that was pushed.
pub(crate) fn either(folder: &str, args: &str) -> String {
    let path = path_in(folder);
    let script = [
        r#"if command -v lmcp >/dev/null 2>&1; then exec lmcp "$@"; fi;"#,
        &format!(r#"p="$HOME"/{path}; if [ -x "$p" ]; then exec "$p" "$@"; fi;"#),
        r#"echo "there is no lmcp in the PATH, and none was pushed" >&2; exit 127"#,
    ];
    format!("sh -c {} lmcp {args}", quoted(&script.join(" ")))
}

fn path_in(folder: &str) -> String {
    format!(".cache/lmcp/{folder}/lmcp")
}

fn over_ssh(host: &HostConfig, script: &str) -> Command {
    let line = format!("sh -c {}", quoted(script));
    let mut command = Command::new("ssh");
    command.args(ssh_args(host, Times::default(), line));
    command
}

/// The checksum of `cksum`: a CRC of the bytes, and then of their number.
fn checksum(bytes: &[u8]) -> u32 {
    let mut table = [0_u32; 256];
    for (byte, entry) in (0_u32..).zip(&mut table) {
        *entry = (0..8).fold(byte << 24, |crc, _| match crc >> 31 {
            0 => crc << 1,
            _ => crc << 1 ^ 0x04c1_1db7,
        });
    }
    let step = |crc: u32, byte: u8| {
        let place = (crc >> 24) as u8 ^ byte;
        crc << 8 ^ table[usize::from(place)]
    };
    let mut crc = bytes.iter().fold(0, |crc, byte| step(crc, *byte));
    let mut rest = bytes.len();
    while rest > 0 {
        crc = step(crc, (rest & 0xff) as u8);
        rest >>= 8;
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_posix() {
        for (text, expected) in [
            ("", 4_294_967_295),
            ("a\n", 2_418_082_923),
            ("123456789", 930_766_865),
        ] {
            assert_eq!(checksum(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn the_folder_tells_versions_and_builds_apart() {
        let folder = |version, program: &str| {
            let pushed = Pushed::new(version, program.as_bytes());
            pushed.folder().to_owned()
        };
        let one = folder("1.0", "a");
        assert_eq!(one, "1.0-ca978112ca1bbdca");
        assert!(one != folder("1.1", "a") && one != folder("1.0", "b"));
    }
}
