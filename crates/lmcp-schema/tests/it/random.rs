//! Schemas and values from a small grammar, the same in every run.

use lmcp_schema::{Schema, normalise_input, normalise_output};
use serde_json::{Map, Value, json};

use crate::oracle::oracle;

#[test]
fn random_schemas_agree_with_the_oracle() {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let (mut pairs, mut valid, mut refused) = (0, 0, 0);
    while pairs < 24_000 {
        let schema = dice.document();
        let ours = match Schema::compile(&schema) {
            Ok(ours) => ours,
            // The grammar makes loops; nothing else it makes is refused.
            Err(err) => {
                assert!(err.rule().contains("refers to itself"), "{schema}: {err}");
                refused += 1;
                continue;
            }
        };
        let theirs = oracle(&schema);
        for _ in 0..8 {
            let instance = dice.instance(3);
            let expected = theirs.is_valid(&instance);
            assert_eq!(
                ours.is_valid(&instance),
                expected,
                "{schema} and {instance}"
            );
            match ours.validate(&instance) {
                Ok(()) => assert!(expected, "{schema} and {instance}"),
                Err(mismatches) => {
                    assert!(!expected, "{schema} and {instance}");
                    assert!(
                        (1..=10).contains(&mismatches.iter().count()),
                        "{schema} and {instance}"
                    );
                    assert!(
                        mismatches.to_string().chars().count() <= 400,
                        "{mismatches}"
                    );
                }
            }
            pairs += 1;
            valid += usize::from(expected);
        }
    }
    assert!(
        valid > pairs / 5 && valid < pairs * 4 / 5,
        "{valid} of {pairs} are valid, which tests little"
    );
    assert!(refused < pairs / 20, "{refused} schemas were refused");
}

#[test]
fn normalising_keeps_the_meaning() {
    let mut dice = Dice(0x0123_4567_89ab_cdef);
    for _ in 0..3000 {
        let mut schema = dice.object_schema(3);
        schema["$defs"] = json!({ "A": dice.schema(2), "B": dice.schema(2) });
        let Ok(before) = Schema::compile(&schema) else {
            continue;
        };
        let (input, output) = (
            normalise_input(schema.clone()),
            normalise_output(schema.clone()),
        );
        assert_eq!(normalise_input(input.clone()), input, "{schema}");
        assert_eq!(normalise_output(output.clone()), output, "{schema}");
        let compile = |after: &Value| {
            Schema::compile(after).unwrap_or_else(|err| panic!("{schema}\n{after}\n{err}"))
        };
        let (as_input, as_output) = (compile(&input), compile(&output));
        for _ in 0..6 {
            let instance = dice.instance(3);
            let expected = before.is_valid(&instance);
            assert_eq!(
                as_output.is_valid(&instance),
                expected,
                "{schema}\n{output}\n{instance}"
            );
            // The meaning of `null` is what changes in arguments, and arguments are an object.
            if instance.is_object() && !instance.to_string().contains("null") {
                assert_eq!(
                    as_input.is_valid(&instance),
                    expected,
                    "{schema}\n{input}\n{instance}"
                );
            }
        }
    }
}

/// Xorshift: small, and no two runs differ.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % sides
    }

    fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.roll(choices.len())].clone()
    }

    /// A whole schema, in one of the two dialects.
    fn document(&mut self) -> Value {
        let draft7 = self.roll(4) == 0;
        let mut schema = if draft7 {
            self.draft7_schema(2)
        } else {
            self.object_schema(3)
        };
        let definitions = if draft7 {
            json!({ "A": self.draft7_schema(1), "B": self.draft7_schema(1) })
        } else {
            json!({ "A": self.schema(2), "B": self.schema(2) })
        };
        if draft7 {
            schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
        }
        schema["$defs"] = definitions;
        schema
    }

    fn schema(&mut self, depth: usize) -> Value {
        match self.roll(12) {
            0 => json!(true),
            1 if depth < 2 => json!(false),
            _ => self.object_schema(depth),
        }
    }

    fn object_schema(&mut self, depth: usize) -> Value {
        let mut schema = Map::new();
        for _ in 0..=self.roll(3) {
            let (keyword, value) = if depth == 0 || self.roll(3) == 0 {
                self.leaf()
            } else {
                self.applicator(depth - 1)
            };
            schema.insert(keyword.to_owned(), value);
            if schema.contains_key("if") && self.roll(3) > 0 && depth > 0 {
                schema.insert("then".to_owned(), self.schema(depth - 1));
                schema.insert("else".to_owned(), self.schema(depth - 1));
            }
        }
        Value::Object(schema)
    }

    /// A keyword without schemas in it.
    fn leaf(&mut self) -> (&'static str, Value) {
        match self.roll(20) {
            0..=3 => ("type", json!(self.pick(&TYPES))),
            4 => (
                "type",
                json!([self.pick(&TYPES[..3]), self.pick(&TYPES[3..])]),
            ),
            5 => (
                "enum",
                Value::Array((0..=self.roll(3)).map(|_| self.instance(1)).collect()),
            ),
            6 => ("const", self.instance(1)),
            7 => ("minimum", self.number()),
            8 => ("maximum", self.number()),
            9 => (
                self.pick(&["exclusiveMinimum", "exclusiveMaximum"]),
                self.number(),
            ),
            10 => (
                "multipleOf",
                self.pick(&[json!(1), json!(2), json!(0.5), json!(0.1), json!(1.0)]),
            ),
            11 => (self.pick(&["minLength", "maxLength"]), json!(self.roll(4))),
            12 => (
                "pattern",
                json!(self.pick(&["a", "^a", "b$", "^[ab]*$", "^.{2}$", "\\d"])),
            ),
            13 => (self.pick(&["minItems", "maxItems"]), json!(self.roll(4))),
            14 => ("uniqueItems", json!(self.roll(4) > 0)),
            15 => (
                self.pick(&["minProperties", "maxProperties"]),
                json!(self.roll(4)),
            ),
            16 => ("required", json!(self.names())),
            17 => ("minContains", json!(self.roll(3))),
            18 => ("maxContains", json!(self.roll(3))),
            _ => (
                "dependentRequired",
                json!({ self.pick(&KEYS): self.names() }),
            ),
        }
    }

    fn applicator(&mut self, depth: usize) -> (&'static str, Value) {
        let list = |dice: &mut Self| {
            Value::Array((0..=dice.roll(3)).map(|_| dice.schema(depth)).collect())
        };
        match self.roll(20) {
            0..=2 => ("properties", self.schema_map(&KEYS, depth)),
            3 => (
                "patternProperties",
                self.schema_map(&["^a", "b", "c$"], depth),
            ),
            4 => ("additionalProperties", self.schema(depth)),
            5 => ("propertyNames", self.schema(depth)),
            6 => ("dependentSchemas", self.schema_map(&KEYS, depth)),
            7 => ("items", self.schema(depth)),
            8 => ("prefixItems", list(self)),
            9 => ("contains", self.schema(depth)),
            10 => ("allOf", list(self)),
            11 => ("anyOf", list(self)),
            12 => ("oneOf", list(self)),
            13 => ("not", self.schema(depth)),
            14 | 15 => ("if", self.schema(depth)),
            16 => ("$ref", json!(self.pick(&["#/$defs/A", "#/$defs/B", "#"]))),
            17 => ("$ref", json!(self.pick(&["#/$defs/A", "#/$defs/B"]))),
            18 => ("unevaluatedProperties", self.schema(depth)),
            _ => ("unevaluatedItems", self.schema(depth)),
        }
    }

    fn draft7_schema(&mut self, depth: usize) -> Value {
        let mut schema = Map::new();
        for _ in 0..=self.roll(3) {
            let within = depth.saturating_sub(1);
            let list = |dice: &mut Self| {
                Value::Array(
                    (0..=dice.roll(2))
                        .map(|_| dice.draft7_schema(within))
                        .collect(),
                )
            };
            match self.roll(if depth == 0 { 3 } else { 9 }) {
                0 => schema.insert("type".to_owned(), json!(self.pick(&TYPES))),
                1 => schema.insert("required".to_owned(), json!(self.names())),
                2 => schema.insert("minimum".to_owned(), self.number()),
                3 => schema.insert("items".to_owned(), list(self)),
                4 => schema.insert("additionalItems".to_owned(), self.draft7_schema(within)),
                5 => schema.insert(
                    "dependencies".to_owned(),
                    json!({ "a": self.names(), "b": self.draft7_schema(within) }),
                ),
                6 => schema.insert(
                    "properties".to_owned(),
                    json!({ "a": self.draft7_schema(within), "b": self.draft7_schema(within) }),
                ),
                7 => schema.insert("anyOf".to_owned(), list(self)),
                _ => schema.insert(
                    "$ref".to_owned(),
                    json!(self.pick(&["#/$defs/A", "#/$defs/B"])),
                ),
            };
        }
        Value::Object(schema)
    }

    fn schema_map(&mut self, keys: &[&'static str], depth: usize) -> Value {
        (0..=self.roll(3))
            .map(|_| (self.pick(keys).to_owned(), self.schema(depth)))
            .collect::<Map<_, _>>()
            .into()
    }

    fn names(&mut self) -> Vec<&'static str> {
        let mut names: Vec<_> = (0..self.roll(3)).map(|_| self.pick(&KEYS)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn number(&mut self) -> Value {
        let numbers = [
            json!(-1),
            json!(0),
            json!(1),
            json!(1.0),
            json!(1.5),
            json!(2),
            json!(3),
            json!(0.3),
            json!(1e300),
        ];
        self.pick(&numbers)
    }

    fn instance(&mut self, depth: usize) -> Value {
        match self.roll(if depth == 0 { 5 } else { 12 }) {
            0 => Value::Null,
            1 => json!(self.roll(2) == 0),
            2 | 3 => self.number(),
            4 => json!(self.pick(&["", "a", "ab", "b", "ba1", "ä€", "c"])),
            5..=7 => (0..self.roll(4))
                .map(|_| self.instance(depth - 1))
                .collect(),
            _ => (0..self.roll(5))
                .map(|_| (self.pick(&KEYS).to_owned(), self.instance(depth - 1)))
                .collect::<Map<_, _>>()
                .into(),
        }
    }
}

const TYPES: [&str; 7] = [
    "object", "array", "string", "integer", "number", "boolean", "null",
];
const KEYS: [&str; 4] = ["a", "b", "c", "ab"];
