//! Puts this program on a host behind ssh: the path there, and the commands with which a shell stores it. No I/O.
//!
//! The folder is named after the version and the content, so a hub finds only a program that is the same as its own.

use std::process::Command;

use crate::{
    config::{HostConfig, Times},
    path::{expect_trusted, ssh_args},
    pushed::{Pushed, path_in},
    script::quoted,
};

impl Pushed {
    /// The command that asks a host what it is: it writes what `uname -sm` does, and a line `there` if the program is there.
    ///
    /// # Errors
    /// Another user could have written the configuration of ssh.
    pub fn look(&self, host: &HostConfig) -> Result<Command, String> {
        expect_trusted(host)?;
        let path = path_in(&self.folder);
        let script = format!(r#"uname -sm; if [ -x "$HOME"/{path} ]; then echo there; fi"#);
        Ok(over_ssh(host, &script))
    }

    /// Returns the command that reads the program from its standard input. The file gets its name only when it is complete,
    /// its checksum is right, and it is known to run there.
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

fn over_ssh(host: &HostConfig, script: &str) -> Command {
    let line = format!("sh -c {}", quoted(script));
    let mut command = Command::new("ssh");
    command.args(ssh_args(host, Times::default(), line));
    command
}

/// Returns the checksum of `cksum`: a CRC of the bytes, and then of their number.
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
}
