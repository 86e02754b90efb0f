//! Resources: one item at a URI, or a family of items at the URIs of a template.

pub mod template;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use lmcp_wire::{self as wire, Annotations, Icon, ResourceContents, discover::CacheHint};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    completion::{Completer, Completions, Unfinished},
    cx::Cx,
    error::{Error, ToolError, ToolResult},
    fit::{self, Flaw},
    handler::{self, Bound, Handler, Unbound},
    roles::Roles,
    strings,
    tool::NoArgs,
};
use template::Template;

/// A resource: an address, and the function that reads its contents.
///
/// A resource has one URI. A template stands for a family of resources, whose URIs have variables. The function of a template gets the
/// variables as the fields of a type of yours.
///
/// ```
/// use lmcp::{Cx, Resource, Server, ToolError, ToolResult};
/// use serde::Deserialize;
///
/// #[derive(Deserialize)]
/// struct Note {
///     name: String,
/// }
///
/// async fn note(note: Note, cx: Cx) -> ToolResult<String> {
///     let read = move || std::fs::read_to_string(format!("notes/{}.md", note.name));
///     cx.blocking(read).await?.map_err(|_| ToolError::not_found())
/// }
///
/// let server = Server::new("notes", "1.0.0")
///     .resource(Resource::text("note://about", "about", "Notes of mine."))
///     .resource(Resource::template("note://{name}", "note", note).mime("text/markdown"));
/// ```
pub struct Resource<S = ()> {
    /// The members that a list shows. For a template, `uri` holds the template.
    spec: wire::Resource,
    is_template: bool,
    /// Returns the reason why variables of these names could never be read.
    flaw: fn(&[&str]) -> Option<Flaw>,
    read: Unbound<S, Variables, Contents>,
    cache: CacheHint,
    completions: Unfinished<S>,
    roles: Roles,
}

pub(crate) type Variables = BTreeMap<String, String>;

impl<S: Send + Sync + 'static> Resource<S> {
    /// Makes a resource with one URI, from `async fn(NoArgs, Cx) -> R`. `R` is text, bytes, or a `ToolResult` of them: see
    /// [`IntoContents`].
    ///
    /// ```
    /// # use lmcp::{Cx, NoArgs, Resource, ToolResult};
    /// async fn motd(_: NoArgs, cx: Cx) -> ToolResult<String> {
    ///     Ok(cx.blocking(|| std::fs::read_to_string("/etc/motd")).await??)
    /// }
    ///
    /// let resource: Resource = Resource::new("file:///etc/motd", "motd", motd).mime("text/plain");
    /// ```
    pub fn new<H, R, Shape>(uri: impl Into<String>, name: impl Into<String>, handler: H) -> Self
    where
        H: Handler<S, NoArgs, R, Shape>,
        R: IntoContents + 'static,
    {
        let read = handler::erase(handler, |_| Ok(NoArgs::default()), R::into_contents);
        Self::from_parts(wire::Resource::new(uri, name), false, read)
    }

    /// Makes a resource whose text never changes.
    pub fn text(uri: impl Into<String>, name: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        Self::new(uri, name, move |_: NoArgs, _: Cx| {
            std::future::ready(text.clone())
        })
        .mime("text/plain")
    }

    /// Makes a family of resources, from `async fn(Args, Cx) -> R`. `Args` has a field for each variable of the template. A template
    /// knows `{x}` for one segment of a path, `{+x}` for a path with slashes, and `{?x,y}` for a query.
    ///
    /// A caller can watch a resource only if it can read that resource: lmcp calls the function before a subscription begins. Return
    /// [`ToolError::not_found`] for a resource that belongs to another user.
    pub fn template<H, A, R, Shape>(
        uri_template: impl Into<String>,
        name: impl Into<String>,
        handler: H,
    ) -> Self
    where
        H: Handler<S, A, R, Shape>,
        A: DeserializeOwned + Send + 'static,
        R: IntoContents + 'static,
    {
        // A URI whose variables do not fit the type names no resource.
        let decode =
            |variables: Variables| strings::read(&variables).map_err(|_| ToolError::not_found());
        let read = handler::erase(handler, decode, R::into_contents);
        let resource = wire::Resource::new(uri_template, name);
        Self {
            flaw: |names| fit::flaw::<A>(names.iter().copied()),
            ..Self::from_parts(resource, true, read)
        }
    }

    fn from_parts(
        spec: wire::Resource,
        is_template: bool,
        read: Unbound<S, Variables, Contents>,
    ) -> Self {
        Self {
            spec,
            is_template,
            flaw: |_| None,
            read,
            cache: CacheHint::private(0),
            completions: Unfinished::default(),
            roles: Roles::default(),
        }
    }

    /// Shows the resource to callers with one of these roles only. For all others the resource does not exist: they cannot read or watch
    /// it, and the variables of its template are not completed. See [`Tool::only_for`](crate::Tool::only_for).
    #[must_use]
    pub fn only_for<R: Into<String>>(mut self, roles: impl IntoIterator<Item = R>) -> Self {
        self.roles = Roles::only(roles);
        self
    }

    /// Describes the resource to the model.
    #[must_use]
    pub fn about(mut self, description: impl Into<String>) -> Self {
        self.spec.description = Some(description.into());
        self
    }

    /// Sets a name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.spec.title = Some(title.into());
        self
    }

    /// Sets the MIME type.
    #[must_use]
    pub fn mime(mut self, mime_type: impl Into<String>) -> Self {
        self.spec.mime_type = Some(mime_type.into());
        self
    }

    /// Sets the size in bytes, as lists show it. Templates have none.
    #[must_use]
    pub fn size(mut self, bytes: u64) -> Self {
        self.spec.size = Some(bytes);
        self
    }

    /// Tells clients for whom the resource is, and how important.
    #[must_use]
    pub fn annotations(mut self, annotations: Annotations) -> Self {
        self.spec.annotations = Some(annotations);
        self
    }

    /// Adds a picture, which clients show beside the name.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Self {
        self.spec.icons.push(icon);
        self
    }

    /// Adds a member to the `_meta` of the resource.
    #[must_use]
    pub fn meta(mut self, key: impl Into<String>, value: Value) -> Self {
        self.spec
            .meta
            .get_or_insert_default()
            .insert(key.into(), value);
        self
    }

    /// Declares that the contents are the same for every caller, and good for this time. By default contents are for one caller,
    /// and stale at once.
    #[must_use]
    pub fn cache_public(mut self, time: Duration) -> Self {
        self.cache = CacheHint::public(millis(time));
        self
    }

    /// Declares that the contents are good for this time, for the caller that read them.
    #[must_use]
    pub fn cache_private(mut self, time: Duration) -> Self {
        self.cache = CacheHint::private(millis(time));
        self
    }

    /// Adds a function that suggests values for a variable of the template. See [`Completing`](crate::Completing).
    #[must_use]
    pub fn complete<C: Completer<S, Shape>, Shape>(
        mut self,
        variable: impl Into<String>,
        completer: C,
    ) -> Self {
        self.completions.add(variable.into(), completer);
        self
    }
}

impl<S> fmt::Debug for Resource<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resource")
            .field("uri", &self.spec.uri)
            .finish_non_exhaustive()
    }
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The contents of a resource.
#[derive(Clone, Debug)]
pub struct Contents(Found);

#[derive(Clone, Debug)]
enum Found {
    Text(String),
    Bytes(Vec<u8>),
    Several(Vec<ResourceContents>),
}

impl Contents {
    /// Gives contents without a URI and a MIME type those of the resource.
    fn place(self, uri: &str, mime_type: Option<&str>) -> Vec<ResourceContents> {
        let contents = match self.0 {
            Found::Text(text) => ResourceContents::text(uri, text),
            Found::Bytes(bytes) => ResourceContents::blob(uri, &bytes),
            Found::Several(contents) => return contents,
        };
        vec![match mime_type {
            Some(mime_type) => contents.mime(mime_type),
            None => contents,
        }]
    }
}

/// A type that the function of a resource can return: text, bytes, contents with their own URIs, or a `Result` of these.
#[diagnostic::on_unimplemented(
    message = "a resource cannot be `{Self}`",
    note = "return `String`, `Vec<u8>`, `Vec<ResourceContents>`, or a `ToolResult` of one of these"
)]
pub trait IntoContents: Send {
    /// Returns the contents.
    ///
    /// # Errors
    /// The resource could not be read, or does not exist.
    fn into_contents(self) -> ToolResult<Contents>;
}

impl IntoContents for String {
    fn into_contents(self) -> ToolResult<Contents> {
        Ok(Contents(Found::Text(self)))
    }
}

impl IntoContents for Vec<u8> {
    fn into_contents(self) -> ToolResult<Contents> {
        Ok(Contents(Found::Bytes(self)))
    }
}

impl IntoContents for Vec<ResourceContents> {
    fn into_contents(self) -> ToolResult<Contents> {
        // The specification wants an error for a resource that does not exist, never an empty list.
        if self.is_empty() {
            Err(ToolError::not_found())
        } else {
            Ok(Contents(Found::Several(self)))
        }
    }
}

impl<T: IntoContents, E: Into<ToolError> + Send> IntoContents for Result<T, E> {
    fn into_contents(self) -> ToolResult<Contents> {
        self.map_err(Into::into)?.into_contents()
    }
}

/// A resource with its state, as the catalog holds it.
pub(crate) struct AnyResource {
    pub(crate) spec: wire::Resource,
    /// Matches URIs. `None` for plain resources.
    pub(crate) template: Option<Result<Template, String>>,
    flaw: fn(&[&str]) -> Option<Flaw>,
    read: Bound<Variables, Contents>,
    pub(crate) cache: CacheHint,
    pub(crate) completions: Completions,
    pub(crate) roles: Roles,
    /// Tells this resource from an earlier one of the same name.
    pub(crate) number: u64,
}

impl AnyResource {
    pub(crate) fn new<S: Send + Sync + 'static>(resource: Resource<S>, state: &Arc<S>) -> Self {
        let template = resource
            .is_template
            .then(|| Template::parse(&resource.spec.uri));
        Self {
            spec: resource.spec,
            template,
            flaw: resource.flaw,
            read: handler::bind(resource.read, state),
            cache: resource.cache,
            completions: resource.completions.bind(state),
            roles: resource.roles,
            number: 0,
        }
    }

    /// Checks everything that can be wrong with a resource before a client sees it.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let uri = &self.spec.uri;
        let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme);
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        let rest = uri.get(scheme.len() + 1..).unwrap_or_default();
        let broken = if !is_scheme {
            Some("a URI begins with a scheme, as `note:` does")
        } else if rest.strip_prefix("//").unwrap_or(rest).is_empty() {
            Some("nothing follows the scheme of the URI, as `plan` does in `note://plan`")
        } else if uri.contains(|c: char| c.is_whitespace() || c.is_control()) {
            Some("a URI has no spaces and no line ends; a space is written as `%20`")
        } else {
            None
        };
        let names: Vec<&str> = match &self.template {
            _ if broken.is_some() => {
                let rule = broken.unwrap_or_default();
                return Err(Error::config(format!("resource `{uri}`: {rule}")));
            }
            Some(Err(rule)) => {
                return Err(Error::config(format!("resource template `{uri}`: {rule}")));
            }
            Some(Ok(template)) => template.names().collect(),
            None => Vec::new(),
        };
        let flaw = match (self.flaw)(&names) {
            Some(Flaw::Missing(field)) => Some(format!(
                "its handler needs `{field}`, which is no variable of it; make the field an `Option`, or name a variable so"
            )),
            Some(Flaw::Structured(field)) => Some(format!(
                "the variable `{field}` is read as a list or a structure, and a URI has text"
            )),
            None => None,
        };
        if let Some(words) = flaw {
            return Err(Error::config(format!("resource template `{uri}`: {words}")));
        }
        match self.completions.names().find(|name| !names.contains(name)) {
            Some(name) => Err(Error::config(format!(
                "resource `{uri}`: it has no variable `{name}` to complete"
            ))),
            None => Ok(()),
        }
    }

    /// Whether a list shows this resource as it shows the other one, to the same callers.
    pub(crate) fn looks_like(&self, other: &Self) -> bool {
        self.spec == other.spec && self.roles == other.roles
    }

    pub(crate) fn as_template(&self) -> wire::ResourceTemplate {
        let wire::Resource {
            uri,
            name,
            title,
            description,
            mime_type,
            annotations,
            icons,
            meta,
            ..
        } = self.spec.clone();
        let mut template = wire::ResourceTemplate::new(uri, name);
        template.title = title;
        template.description = description;
        template.mime_type = mime_type;
        template.annotations = annotations;
        template.icons = icons;
        template.meta = meta;
        template
    }

    pub(crate) async fn read(
        &self,
        uri: &str,
        variables: Variables,
        cx: Cx,
    ) -> ToolResult<Vec<ResourceContents>> {
        let contents = (self.read)(variables, cx).await?;
        Ok(contents.place(uri, self.spec.mime_type.as_deref()))
    }
}

impl fmt::Debug for AnyResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnyResource").field(&self.spec.uri).finish()
    }
}
