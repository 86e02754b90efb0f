//! Formulas in one line: MathML without its layout, `x^2` and `a/b`.

/// The elements of a formula that are open.
#[derive(Debug, Default)]
pub(super) struct Math {
    /// The signs between the children of each element, and how many children there were.
    open: Vec<(&'static [&'static str], usize)>,
    /// How many more elements are open than are kept.
    deeper: usize,
}

impl Math {
    /// Returns the text to write before an element of this name.
    pub(super) fn start(&mut self, name: &str) -> &'static str {
        let mut sign = match name {
            "msqrt" | "mroot" => "√",
            "mtd" => " ",
            _ => "",
        };
        if let Some((signs, children)) = self.open.last_mut() {
            sign = children
                .checked_sub(1)
                .and_then(|before| signs.get(before).copied())
                .unwrap_or(sign);
            *children += 1;
        }
        if self.open.len() == MOST_OPEN {
            self.deeper += 1;
        } else {
            self.open.push((between(name), 0));
        }
        sign
    }

    /// Ends an element. Returns whether the formula ends with it.
    pub(super) fn end(&mut self) -> bool {
        if self.deeper > 0 {
            self.deeper -= 1;
        } else {
            self.open.pop();
        }
        self.open.is_empty()
    }
}

fn between(name: &str) -> &'static [&'static str] {
    match name {
        "msup" | "mover" => &["^"],
        "msub" | "munder" => &["_"],
        "msubsup" | "munderover" => &["_", "^"],
        "mfrac" => &["/"],
        _ => &[],
    }
}

const MOST_OPEN: usize = 64;
