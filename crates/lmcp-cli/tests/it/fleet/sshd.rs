//! A real sshd on loopback, for this user and this test alone, and the configuration with which ssh finds it.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::process::{getuid, kill_process_group};

/// An sshd, which ends with the test, together with all its connections.
pub(super) struct Sshd {
    child: Child,
    /// The file for `ssh -F`, in which the host is called `far`.
    pub(super) config: PathBuf,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.child);
        let _ = kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.child.wait();
    }
}

impl Sshd {
    /// Starts an sshd. `None`, with a note, if this machine has no OpenSSH server.
    pub(super) fn start(folder: &Path) -> Option<Self> {
        Self::start_with(folder, "")
    }

    /// Starts an sshd that runs every command with this home. With `programs`, commands find only the programs of that
    /// folder.
    pub(super) fn at_home(folder: &Path, home: &Path, programs: Option<&Path>) -> Option<Self> {
        fs::create_dir_all(folder).expect("tests may write here");
        fs::create_dir_all(home).expect("tests may write here");
        let home = home.display();
        let (path, shell) = match programs.map(Path::display) {
            Some(programs) => (format!("PATH={programs}"), format!("{programs}/sh")),
            None => (String::new(), "sh".to_owned()),
        };
        let line =
            format!("ForceCommand HOME={home} {path} exec {shell} -c \"$SSH_ORIGINAL_COMMAND\"\n");
        Self::start_with(folder, &line)
    }

    /// Does the same, with additional lines in its configuration.
    #[expect(clippy::print_stderr, reason = "says what was not tested")]
    pub(super) fn start_with(folder: &Path, more: &str) -> Option<Self> {
        let program = ["/usr/sbin/sshd", "/usr/bin/sshd", "/usr/local/sbin/sshd"];
        let program = program.into_iter().find(|path| Path::new(path).exists());
        let Some(program) = program else {
            eprintln!(
                "note: there is no sshd here (apt-get install openssh-server), so hosts behind ssh are not tested"
            );
            return None;
        };
        if getuid().is_root() {
            // The sshd of root needs this folder for its unprivileged process.
            fs::create_dir_all("/run/sshd").ok()?;
        }
        let folder = folder.join("ssh");
        fs::create_dir_all(&folder).expect("tests may write here");
        for key in ["host", "user"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]);
            let made = keygen.arg(folder.join(key)).status();
            assert!(made.expect("sshd comes with ssh-keygen").success());
        }
        // Another program may take the port before sshd does.
        (0..5).find_map(|_| Self::listen(program, &folder, more))
    }

    fn listen(program: &str, folder: &Path, more: &str) -> Option<Self> {
        let free = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
        let port = free.local_addr().expect("it is bound").port();
        drop(free);
        let at = |name: &str| folder.join(name).display().to_string();
        // A shell that seems to be started by another shell does not read the user's `.bashrc`, which may be slow, and may
        // hold a lock for ever if it is killed. sshd uses the first `SetEnv`, so `more` may have another one.
        let server = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\n\
             StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n\
             {more}\nSetEnv SHLVL=2\n",
            at("host"),
            at("user.pub"),
        );
        let user = env::var("USER").or_else(|_| env::var("LOGNAME"));
        let user = user.unwrap_or_else(|_| {
            let said = Command::new("id").arg("-un").output().expect("there is id");
            String::from_utf8_lossy(&said.stdout).trim().to_owned()
        });
        let client = format!(
            "Host far\n  HostName 127.0.0.1\n  Port {port}\n  User {user}\n  IdentityFile {}\n  IdentitiesOnly yes\n  \
             UserKnownHostsFile {}\n  GlobalKnownHostsFile /dev/null\n",
            at("user"),
            at("known"),
        );
        let key = fs::read_to_string(at("host.pub")).expect("it was just made");
        for (name, text) in [
            ("sshd_config", &server),
            ("ssh_config", &client),
            ("known", &format!("[127.0.0.1]:{port} {key}")),
        ] {
            fs::write(at(name), text).expect("tests may write here");
            let rights = fs::Permissions::from_mode(0o600);
            fs::set_permissions(at(name), rights).expect("it is ours");
        }
        use std::os::unix::process::CommandExt as _;
        let mut child = Command::new(program)
            .args(["-D", "-e", "-f", &at("sshd_config")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("sshd is there");
        let mut said = BufReader::new(child.stderr.take().expect("it is a pipe"));
        let mut line = String::new();
        while said.read_line(&mut line).is_ok_and(|read| read > 0) {
            if line.contains("Server listening on") {
                // The sshd writes more later, and needs a reader for that.
                std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
                return Some(Self {
                    child,
                    config: folder.join("ssh_config"),
                });
            }
        }
        let _ = child.wait();
        assert!(line.contains("in use"), "sshd does not start: {line}");
        None
    }
}
