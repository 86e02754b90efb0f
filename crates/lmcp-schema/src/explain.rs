//! Explains shortly why none of several alternatives fits.

use serde_json::Value;

use crate::{
    mismatch::{Kind, Mismatch, Path},
    node::Types,
};

/// Sums up the mismatches of a value with each alternative of an `anyOf` or `oneOf`.
///
/// A union of types or of constants becomes one sentence. Otherwise the mismatches of the most likely alternative are returned:
/// the one with the right type, the right tag, and the fewest mismatches.
pub(crate) fn alternatives(
    mut found: Vec<Vec<Mismatch>>,
    at: &Path<'_>,
    instance: &Value,
) -> Vec<Mismatch> {
    let path = at.pointer();
    let key = |found: &Vec<Mismatch>| (fitness(found, &path), found.len());
    let Some(best) = (0..found.len()).min_by_key(|index| key(&found[*index])) else {
        return Vec::new();
    };
    match fitness(&found[best], &path) {
        Fitness::Near => found.swap_remove(best),
        Fitness::OtherTag => {
            let tag = found[best]
                .iter()
                .find(|mismatch| is_tag(mismatch, &path))
                .map(|mismatch| mismatch.path.clone());
            vec![union_of_values(
                found.iter().flatten(),
                tag.unwrap_or_default(),
            )]
        }
        Fitness::OtherType => {
            let types = found
                .iter()
                .flatten()
                .filter(|mismatch| mismatch.path == path)
                .map(|mismatch| match mismatch.kind {
                    Kind::Type(types) => types,
                    Kind::Values(..) | Kind::Other => Types::NONE,
                });
            vec![Mismatch::of_type(
                at,
                types.fold(Types::NONE, Types::union),
                instance,
            )]
        }
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Fitness {
    Near,
    /// A constant differs: the value has the tag of another variant.
    OtherTag,
    OtherType,
}

fn fitness(found: &[Mismatch], path: &str) -> Fitness {
    if found
        .iter()
        .any(|mismatch| mismatch.path == path && matches!(mismatch.kind, Kind::Type(_)))
    {
        return Fitness::OtherType;
    }
    if found.iter().any(|mismatch| is_tag(mismatch, path)) {
        Fitness::OtherTag
    } else {
        Fitness::Near
    }
}

fn is_tag(mismatch: &Mismatch, path: &str) -> bool {
    match &mismatch.kind {
        Kind::Values(values, _) => mismatch.path == path || values.len() == 1,
        Kind::Type(_) | Kind::Other => false,
    }
}

fn union_of_values<'a>(found: impl Iterator<Item = &'a Mismatch>, path: String) -> Mismatch {
    let (mut all, mut came) = (Vec::<String>::new(), String::new());
    for mismatch in found.filter(|mismatch| mismatch.path == path) {
        let Kind::Values(values, got) = &mismatch.kind else {
            continue;
        };
        came.clone_from(got);
        for value in values {
            if !all.contains(value) {
                all.push(value.clone());
            }
        }
    }
    Mismatch::of_values(path, all, came)
}
