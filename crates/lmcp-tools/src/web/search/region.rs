//! The region of the results: a country and a language.

use lmcp_core::{ToolError, ToolResult};

/// A region in DuckDuckGo's form, `us-en`; the other backends use other forms.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Region {
    country: String,
    language: String,
}

impl Region {
    /// Reads a region. `None` for an empty text and for `wt-wt`, the whole world.
    pub(super) fn parse(text: &str) -> ToolResult<Option<Self>> {
        let text = text.trim().to_ascii_lowercase();
        if text.is_empty() || text == "wt-wt" {
            return Ok(None);
        }
        let letters = |part: &str, most| {
            (2..=most).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_lowercase())
        };
        match text.split_once('-') {
            Some((country, language)) if letters(country, 2) && letters(language, 3) => {
                Ok(Some(Self {
                    country: country.to_owned(),
                    language: language.to_owned(),
                }))
            }
            _ => Err(ToolError::new(format!("`{text}` is no region"))
                .hint("write country and language, like `us-en` or `de-de`")),
        }
    }

    /// Returns the form `us-en`.
    pub(super) fn country_language(&self) -> String {
        format!("{}-{}", self.country, self.language)
    }

    /// Returns the form `en-US`.
    pub(super) fn locale(&self) -> String {
        format!("{}-{}", self.language(), self.country())
    }

    /// Returns the country, `US`.
    pub(super) fn country(&self) -> String {
        match self.country.as_str() {
            "uk" => "GB".into(),
            other => other.to_ascii_uppercase(),
        }
    }

    /// Returns the language, `en`. DuckDuckGo has names of its own for some.
    pub(super) fn language(&self) -> &str {
        match self.language.as_str() {
            "jp" => "ja",
            "kr" => "ko",
            "tzh" => "zh",
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_backend_gets_it_in_its_own_way() {
        let region = Region::parse("UK-en").unwrap().unwrap();
        assert_eq!(region.country_language(), "uk-en");
        assert_eq!(region.locale(), "en-GB");
        assert_eq!(Region::parse("jp-jp").unwrap().unwrap().locale(), "ja-JP");
        assert_eq!(Region::parse("wt-wt").unwrap(), None);
        assert!(Region::parse("Germany").is_err());
    }
}
