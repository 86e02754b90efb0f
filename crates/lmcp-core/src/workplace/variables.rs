//! The variables that a session brings along: those that choose the tool chain, the language and the proxy. Variables whose
//! name sounds like a secret are left out, even if they are listed.

use std::collections::BTreeMap;

/// Variables by their full names.
const NAMES: &[&str] = &[
    // The places of programs and libraries, and the flags of their builds.
    "PATH",
    "MANPATH",
    "LD_LIBRARY_PATH",
    "LIBRARY_PATH",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "PKG_CONFIG_PATH",
    "CMAKE_PREFIX_PATH",
    "CC",
    "CXX",
    "CFLAGS",
    "CXXFLAGS",
    "LDFLAGS",
    // Tool chains whose variables have no common prefix.
    "CARGO_HOME",
    "CARGO_INCREMENTAL",
    "CARGO_TARGET_DIR",
    "VIRTUAL_ENV",
    "VIRTUAL_ENV_PROMPT",
    "NODE_ENV",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NODE_EXTRA_CA_CERTS",
    "PNPM_HOME",
    "BUN_INSTALL",
    "DENO_DIR",
    "DENO_INSTALL",
    "GOBIN",
    "GOCACHE",
    "GOFLAGS",
    "GOMODCACHE",
    "GOPATH",
    "GOPRIVATE",
    "GOPROXY",
    "GOROOT",
    "GOTOOLCHAIN",
    "CGO_ENABLED",
    "JAVA_HOME",
    "JDK_HOME",
    "MAVEN_HOME",
    "GRADLE_HOME",
    "GRADLE_USER_HOME",
    "ANDROID_HOME",
    "ANDROID_SDK_ROOT",
    "GEM_HOME",
    "GEM_PATH",
    "BUNDLE_GEMFILE",
    "BUNDLE_PATH",
    "DOTNET_ROOT",
    "HOMEBREW_CELLAR",
    "HOMEBREW_PREFIX",
    "HOMEBREW_REPOSITORY",
    "IN_NIX_SHELL",
    "NIX_PATH",
    "NIX_PROFILES",
    "NIX_SSL_CERT_FILE",
    // The names of a cluster, an engine or an account.
    "KUBECONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    // The language, the time zone, and the folder for temporary files.
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    // Proxies, and the certificates that are trusted there.
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    // Services of a login. None of these variables holds a secret; each names a place to ask at.
    "SSH_AUTH_SOCK",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
];

/// Variables by the beginning of their names.
const BEGINNINGS: &[&str] = &[
    "ASDF_",
    "CARGO_BUILD_",
    "CARGO_NET_",
    "CARGO_PROFILE_",
    "CARGO_TARGET_",
    "CONDA_",
    "FNM_",
    "GIT_AUTHOR_",
    "GIT_COMMITTER_",
    "LC_",
    "MAMBA_",
    "MISE_",
    "NIX_CFLAGS_",
    "NIX_LDFLAGS",
    "NVM_",
    "PIPENV_",
    "PIP_",
    "POETRY_",
    "PYENV_",
    "PYTHON",
    "RBENV_",
    "RUST",
    "SDKMAN_",
    "UV_",
    "VOLTA_",
    "XDG_",
];

/// Words in the names of secrets.
const SECRET: &[&str] = &[
    "TOKEN",
    "SECRET",
    "KEY",
    "PASS",
    "CREDENTIAL",
    "_PWD",
    "COOKIE",
    "JWT",
    "BEARER",
];

/// The most bytes of all variables together. Of more, variables are kept in the order of their names, as far as they fit.
const MOST_BYTES: usize = 32 << 10;

/// Whether each session of a shared server has its own value of this variable. That holds for `PATH`, `VIRTUAL_ENV`, `LANG` and others that
/// shape a tool chain, and for no variable whose name sounds like a secret or is a setting of lmcp.
pub fn is_of_session(name: &str) -> bool {
    let begins = |beginning: &&str| name.starts_with(beginning);
    let is_listed = NAMES.contains(&name) || BEGINNINGS.iter().any(begins);
    is_listed && !is_secret(name) && !lmcp_private::is_own_variable(name)
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    // A word of three letters is part of many other words.
    let has_pin = name.split('_').any(|part| part == "PIN");
    SECRET.iter().any(|word| name.contains(word)) || name.ends_with("AUTH") || has_pin
}

/// Whether an address in the value names a user. `http://ann:hush@proxy.example` has a password, and for some servers the user
/// name alone is a password; not for SSH. A proxy may be written without `http://`, or only with `//`.
fn names_a_user(name: &str, value: &str) -> bool {
    const ENDS: [char; 5] = ['/', '?', '#', ' ', ','];
    let has_password = value.split(ENDS).any(|part| {
        let user = part.rsplit_once('@').map(|(user, _)| user);
        user.is_some_and(|user| user.contains(':'))
    });
    let is_proxy = name.to_ascii_uppercase().ends_with("_PROXY");
    let mut scheme = is_proxy.then_some("");
    let has_user = value.split("//").any(|part| {
        let authority = part.split(ENDS).next();
        let has_user = authority.is_some_and(|authority| authority.contains('@'));
        let before = scheme.replace(part);
        has_user && before.is_some_and(|before| !before.ends_with("ssh:"))
    });
    has_password || has_user
}

/// Keeps the variables that a session brings along.
pub(super) fn keep(variables: impl Iterator<Item = (String, String)>) -> BTreeMap<String, String> {
    let kept: BTreeMap<_, _> = variables
        .filter(|(name, value)| is_of_session(name) && !names_a_user(name, value))
        .collect();
    let mut bytes = 0;
    kept.into_iter()
        .filter(|(name, value)| {
            let with = bytes + name.len() + value.len();
            let fits = with <= MOST_BYTES;
            if fits {
                bytes = with;
            }
            fits
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_chain_is_brought_along() {
        for name in [
            "PATH",
            "VIRTUAL_ENV",
            "CONDA_PREFIX",
            "LANG",
            "LC_ALL",
            "TZ",
            "NVM_DIR",
            "PYENV_ROOT",
            "JAVA_HOME",
            "CARGO_HOME",
            "RUSTUP_TOOLCHAIN",
            "RUSTFLAGS",
            "https_proxy",
            "SSH_AUTH_SOCK",
            "GIT_AUTHOR_NAME",
            "XDG_CONFIG_HOME",
        ] {
            assert!(is_of_session(name), "{name}");
        }
    }

    #[test]
    fn a_secret_never_is_even_where_its_family_is() {
        for name in [
            "OPENAI_API_KEY",
            "GITHUB_TOKEN",
            "CARGO_REGISTRY_TOKEN",
            "CARGO_REGISTRIES_OURS_CREDENTIAL_PROVIDER",
            "CARGO_MAKEFLAGS",
            "HOMEBREW_GITHUB_API_TOKEN",
            "NIX_CONFIG",
            "MISE_GITHUB_TOKEN",
            "PIP_PASSWORD",
            "POETRY_HTTP_BASIC_OURS_PASSWORD",
            "UV_INDEX_OURS_PASSWORD",
            "UV_PUBLISH_TOKEN",
            "CONDA_secret_x",
            "UV_X_AUTH",
            "AWS_SECRET_ACCESS_KEY",
            "MYSQL_PWD",
            "UV_INDEX_OURS_JWT",
            "PIP_BEARER_OURS",
            "CONDA_PIN",
            "MISE_PIN_OURS",
            "POETRY_COOKIES",
            "DIRENV_DIFF",
            "LD_PRELOAD",
            "BASH_ENV",
            "LMCP_TOKEN",
            "LMCP_ROOT",
            "HOME",
        ] {
            assert!(!is_of_session(name), "{name}");
        }
    }

    #[test]
    fn no_word_of_the_lists_sounds_like_a_secret() {
        let words = NAMES.iter().chain(BEGINNINGS);
        let secret: Vec<_> = words.filter(|name| is_secret(name)).collect();
        assert!(secret.is_empty(), "{secret:?}");
    }

    #[test]
    fn an_address_that_names_a_user_is_left_out() {
        let pairs = [
            ("ALL_PROXY", "http://ann:hush@proxy.example:3128"),
            ("DOCKER_HOST", "ssh://ann@box.example"),
            ("GOPROXY", "https://a.example,https://hush@b.example"),
            ("HTTP_PROXY", "//ann:hush@proxy.example:3128"),
            ("all_proxy", "//hush@proxy.example"),
            ("HTTPS_PROXY", "http://proxy.example:3128/b@c"),
            ("PATH", "/home/ann@work/bin:/bin"),
            ("http_proxy", "ann:hush@proxy.example:3128"),
            ("https_proxy", "proxy.example:3128"),
            ("PIP_INDEX_URL", "https://hush@index.example/simple"),
            ("GIT_SSH_COMMAND", "ssh ssh://ann:hush@box.example"),
            ("UV_DEFAULT_INDEX", "ours=//x:y@b.example/simple"),
            ("UV_INDEX", "https://a.example https://x:y@b.example/simple"),
        ];
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let kept: Vec<_> = keep(pairs.into_iter()).into_keys().collect();
        assert_eq!(kept, ["DOCKER_HOST", "HTTPS_PROXY", "PATH", "https_proxy"]);
    }

    #[test]
    fn they_have_a_bound() {
        let long = "x".repeat(MOST_BYTES);
        let pairs = [("LC_ALL", &*long), ("PATH", "/bin")];
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let kept: Vec<_> = keep(pairs.into_iter()).into_keys().collect();
        assert_eq!(kept, ["PATH"]);
    }
}
