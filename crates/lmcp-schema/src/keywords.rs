//! Compiles each keyword into checks, and refuses some keywords.

use serde_json::{Number, Value};

use crate::{
    compile::{Compiler, Dialect},
    error::SchemaError,
    header,
    node::{ArrayCheck, Check, Limit, Measure, NodeId, ObjectCheck, Properties},
    node::{ScalarCheck, TYPE_NAMES, Types},
    read::Object,
    text,
};

type Done = Result<(), SchemaError>;
type FromNumber = fn(Number) -> ScalarCheck;

impl<'a> Compiler<'a> {
    /// Adds the checks of the schema that becomes `node`. Checks that are cheap and often fail come first.
    pub(crate) fn keywords(
        &mut self,
        object: &'a Object,
        node: NodeId,
        checks: &mut Vec<Check>,
    ) -> Done {
        if let Some(text) = self.string(object, "$ref")? {
            checks.push(self.reference(text));
            if self.dialect == Dialect::Draft7 {
                // In draft-07, a reference hides all keywords beside it.
                return Ok(());
            }
        }
        self.identity(object)?;
        self.annotations(object)?;
        self.values(object, checks)?;
        self.sizes(object, checks)?;
        self.scalars(object, checks)?;
        self.members(object, checks)?;
        self.elements(object, checks)?;
        self.combinations(object, checks)?;
        self.dependent(object, checks)?;
        self.unevaluated(object, node, checks)?;
        self.definitions(object)
    }

    /// `$schema`, `$id`, the anchors, and the keywords that are refused.
    fn identity(&mut self, object: &'a Object) -> Done {
        let declared = object.get("$schema").map(Dialect::declared);
        if declared.is_some_and(|declared| declared != Some(self.dialect)) {
            return self.refuse(&["$schema"], "a schema inside another has the same dialect");
        }
        if self.string(object, "$id")?.is_some() && !self.at.is_empty() {
            let rule = "only the root may have an `$id`: here it would change what references mean";
            return self.refuse(&["$id"], rule);
        }
        let (refused, dialect) = match self.dialect {
            Dialect::Draft2020 => (REFUSED_IN_2020_12, "2020-12"),
            Dialect::Draft7 => (REFUSED_IN_DRAFT_07, "draft-07, which `$schema` declares"),
        };
        if let Some(keyword) = refused
            .iter()
            .find(|keyword| object.contains_key(**keyword))
        {
            return self.refuse(
                &[keyword],
                format!("`{keyword}` is not enforced in {dialect}"),
            );
        }
        if self.dialect == Dialect::Draft7 {
            return Ok(());
        }
        for keyword in ["$anchor", "$dynamicAnchor"] {
            let Some(name) = self.string(object, keyword)? else {
                continue;
            };
            let earlier = self.anchors.insert(name, self.at.clone());
            if earlier.is_some_and(|earlier| earlier != self.at) {
                return self.refuse(&[keyword], format!("anchor `{name}` exists already"));
            }
        }
        Ok(())
    }

    /// Checks the types of keywords that assert nothing, because some clients check them, too.
    fn annotations(&self, object: &'a Object) -> Done {
        for keyword in ["title", "description", "$comment", "format"] {
            self.string(object, keyword)?;
        }
        for keyword in ["contentEncoding", "contentMediaType"] {
            self.string(object, keyword)?;
        }
        for keyword in ["readOnly", "writeOnly", "deprecated"] {
            self.flag(object, keyword)?;
        }
        self.list(object, "examples").map(drop)
    }

    /// `enum`, `const` and `type`
    fn values(&self, object: &'a Object, checks: &mut Vec<Check>) -> Done {
        if let Some(values) = self.list(object, "enum")? {
            checks.push(Check::Values(values.as_slice().into()));
        }
        if let Some(value) = object.get("const") {
            checks.push(Check::Values([value.clone()].into()));
        }
        let names = match object.get("type") {
            None => return Ok(()),
            Some(Value::Array(names)) if !names.is_empty() => names.as_slice(),
            Some(name) => std::slice::from_ref(name),
        };
        let mut types = Types::NONE;
        for name in names {
            let Some(named) = name.as_str().and_then(Types::named) else {
                let (shown, known) = (text::shown(name), TYPE_NAMES.join(", "));
                return self.refuse(&["type"], format!("{shown} is no type; {known} are"));
            };
            if types.union(named) == types {
                return self.refuse(&["type"], format!("{name} is listed twice"));
            }
            types = types.union(named);
        }
        checks.push(Check::Type(types));
        Ok(())
    }

    fn sizes(&self, object: &'a Object, checks: &mut Vec<Check>) -> Done {
        for (keyword, measure, limit) in [
            ("minLength", Measure::Characters, Limit::AtLeast),
            ("maxLength", Measure::Characters, Limit::AtMost),
            ("minItems", Measure::Items, Limit::AtLeast),
            ("maxItems", Measure::Items, Limit::AtMost),
            ("minProperties", Measure::Properties, Limit::AtLeast),
            ("maxProperties", Measure::Properties, Limit::AtMost),
        ] {
            let count = self.count(object, keyword)?;
            checks.extend(count.map(|count| Check::Size(measure, limit, count)));
        }
        Ok(())
    }

    fn scalars(&self, object: &'a Object, checks: &mut Vec<Check>) -> Done {
        let numeric: [(_, FromNumber); 5] = [
            ("minimum", ScalarCheck::Minimum),
            ("maximum", ScalarCheck::Maximum),
            ("exclusiveMinimum", ScalarCheck::ExclusiveMinimum),
            ("exclusiveMaximum", ScalarCheck::ExclusiveMaximum),
            ("multipleOf", ScalarCheck::MultipleOf),
        ];
        for (keyword, check) in numeric {
            let number = self.number(object, keyword)?;
            checks.extend(number.map(|number| Check::Scalar(check(number.clone()))));
        }
        let step = object.get("multipleOf").and_then(Value::as_f64);
        if let Some(step) = step.filter(|step| *step <= 0.0) {
            return self.refuse(
                &["multipleOf"],
                format!("expected a number above 0, found {step}"),
            );
        }
        if self.has_headers && header::is_mirrored_integer(object) {
            checks.extend(header::mirrored_range().map(Check::Scalar));
        }
        if let Some(pattern) = self.string(object, "pattern")? {
            let pattern = self.regex(&["pattern"], pattern)?;
            checks.push(Check::Scalar(ScalarCheck::Pattern(pattern)));
        }
        Ok(())
    }

    /// The keywords about the properties of an object.
    fn members(&mut self, object: &'a Object, checks: &mut Vec<Check>) -> Done {
        if let Some(names) = object.get("required") {
            let names = self.names(&["required"], names)?;
            checks.push(Check::Object(ObjectCheck::Required(names)));
        }
        let mut named = Vec::new();
        for (name, value) in self.map(object, "properties")? {
            named.push((
                Box::from(&**name),
                self.child(&["properties", name], value)?,
            ));
        }
        named.sort_unstable();
        let mut patterns = Vec::new();
        for (pattern, value) in self.map(object, "patternProperties")? {
            let tokens = ["patternProperties", pattern];
            patterns.push((self.regex(&tokens, pattern)?, self.child(&tokens, value)?));
        }
        let rest = self.schema_at(object, "additionalProperties")?;
        if !named.is_empty() || !patterns.is_empty() || rest.is_some() {
            let (named, patterns) = (named.into(), patterns.into());
            let properties = Properties {
                named,
                patterns,
                rest,
            };
            checks.push(Check::Object(ObjectCheck::Properties(properties)));
        }
        let names = self.schema_at(object, "propertyNames")?;
        checks.extend(names.map(|node| Check::Object(ObjectCheck::Names(node))));
        Ok(())
    }

    /// The keywords about the items of an array.
    fn elements(&mut self, object: &'a Object, checks: &mut Vec<Check>) -> Done {
        let (prefix, rest) = match (self.dialect, object.get("items")) {
            (Dialect::Draft7, Some(Value::Array(_))) => ("items", "additionalItems"),
            (Dialect::Draft2020, Some(Value::Array(_))) => {
                return self.refuse(&["items"], "a list of schemas is `prefixItems` in 2020-12");
            }
            // In draft-07, `prefixItems` was refused before.
            (Dialect::Draft7 | Dialect::Draft2020, _) => ("prefixItems", "items"),
        };
        let prefix = self.schemas(object, prefix)?.unwrap_or_default();
        let rest = self.schema_at(object, rest)?;
        if !prefix.is_empty() || rest.is_some() {
            checks.push(Check::Array(ArrayCheck::Items { prefix, rest }));
        }
        let least = self.count(object, "minContains")?.unwrap_or(1);
        let most = self.count(object, "maxContains")?;
        let contains = self.schema_at(object, "contains")?;
        let contains = contains.map(|node| ArrayCheck::Contains { node, least, most });
        checks.extend(contains.map(Check::Array));
        if self.flag(object, "uniqueItems")? == Some(true) {
            checks.push(Check::Array(ArrayCheck::Unique));
        }
        Ok(())
    }

    fn combinations(&mut self, object: &'a Object, checks: &mut Vec<Check>) -> Done {
        checks.extend(self.schemas(object, "allOf")?.map(Check::All));
        checks.extend(self.schemas(object, "anyOf")?.map(Check::Any));
        checks.extend(self.schemas(object, "oneOf")?.map(Check::One));
        checks.extend(self.schema_at(object, "not")?.map(Check::Not));
        let condition = self.schema_at(object, "if")?;
        let then = self.schema_at(object, "then")?;
        let or_else = self.schema_at(object, "else")?;
        checks.extend(condition.map(|condition| Check::If(condition, then, or_else)));
        Ok(())
    }

    fn dependent(&mut self, object: &'a Object, checks: &mut Vec<Check>) -> Done {
        // `dependencies` of draft-07 is the same as both of its successors together.
        for keyword in ["dependentRequired", "dependentSchemas", "dependencies"] {
            for (name, value) in self.map(object, keyword)? {
                let (trigger, tokens) = (Box::from(&**name), [keyword, name]);
                checks.push(Check::Object(match (keyword, value) {
                    ("dependentRequired", _) | ("dependencies", Value::Array(_)) => {
                        ObjectCheck::DependentRequired(trigger, self.names(&tokens, value)?)
                    }
                    _ => ObjectCheck::DependentSchema(trigger, self.child(&tokens, value)?),
                }));
            }
        }
        Ok(())
    }

    fn unevaluated(&mut self, object: &'a Object, owner: NodeId, checks: &mut Vec<Check>) -> Done {
        let rest = self.schema_at(object, "unevaluatedProperties")?;
        checks.extend(rest.map(|rest| Check::Object(ObjectCheck::Unevaluated { owner, rest })));
        let rest = self.schema_at(object, "unevaluatedItems")?;
        checks.extend(rest.map(|rest| Check::Array(ArrayCheck::Unevaluated { owner, rest })));
        Ok(())
    }

    /// Compiles schemas that apply only through references. They must be valid even without one.
    fn definitions(&mut self, object: &'a Object) -> Done {
        for keyword in ["$defs", "definitions"] {
            for (name, value) in self.map(object, keyword)? {
                self.child(&[keyword, name], value)?;
            }
        }
        self.schema_at(object, "contentSchema").map(drop)
    }
}

const REFUSED_IN_2020_12: &[&str] = &["$dynamicRef", "$recursiveRef", "dependencies"];
#[rustfmt::skip]
const REFUSED_IN_DRAFT_07: &[&str] = &[
    "$dynamicRef", "$recursiveRef", "prefixItems", "minContains", "maxContains",
    "dependentRequired", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties",
];
