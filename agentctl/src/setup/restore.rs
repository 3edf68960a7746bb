//! The way back: the values from before in the objects with settings, as their records have them. Pure.

use diagnosis::object::{put, value};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    FieldChange, ObjectChange, as_read,
    holder::{Holder, Path, RECORD, RECORDED},
    record::{Record, Values},
    ui,
};
use crate::check::{Checked, warning};

/// What becomes of a recorded field.
enum Restored {
    /// It gets its value from before.
    Set(FieldChange),
    /// Another client changed it.
    Kept(Checked),
    /// It is as before already.
    Same,
}

impl Holder<'_> {
    /// One write that restores the values from before. A value that is not as setup left it stays.
    pub(super) fn restore(
        self,
        record: &Record,
        now: Timestamp,
    ) -> (Option<ObjectChange>, Vec<(&'static str, Checked)>) {
        let (mut body, mut fields, mut kept) = (as_read(self.object), Vec::new(), Vec::new());
        for path in self.fields {
            let field = path.join(".");
            let Some(values) = record.fields.get(&field) else {
                continue;
            };
            match self.restored(path, values) {
                Restored::Set(value) => {
                    put(&mut body, path, value.after.clone());
                    fields.push(value);
                }
                Restored::Kept(finding) => kept.push(("kept", finding)),
                Restored::Same => {}
            }
        }
        if fields.is_empty() {
            return (None, kept);
        }
        put(&mut body, RECORD, record.text(now));
        (Some(self.patch(body, fields)), kept)
    }

    /// One write that restores the values of the pages in the UI alone, and removes them from the record. The flags of the
    /// operator stay: they are one value with those for live views.
    pub(super) fn withdraw(
        self,
        mut record: Record,
    ) -> (Option<ObjectChange>, Vec<(&'static str, Checked)>) {
        let (mut body, mut fields, mut kept) = (as_read(self.object), Vec::new(), Vec::new());
        let of_ui = self.fields.iter().filter(|it| ui::is_of_ui(it));
        let mut is_recorded = false;
        for path in of_ui {
            let Some(values) = record.fields.remove(&path.join(".")) else {
                continue;
            };
            is_recorded = true;
            match self.restored(path, &values) {
                Restored::Set(value) => {
                    put(&mut body, path, value.after.clone());
                    fields.push(value);
                }
                Restored::Kept(finding) => kept.push(("kept", finding)),
                Restored::Same => {}
            }
        }
        let is_empty = record.fields.is_empty();
        let rest = if is_empty { Value::Null } else { record.kept() };
        put(&mut body, RECORD, rest);
        if is_empty {
            let record = FieldChange::new(&RECORD.join("."), json!(RECORDED), Value::Null);
            fields.push(record);
        }
        (is_recorded.then(|| self.patch(body, fields)), kept)
    }

    /// What becomes of a field whose values from before and after are recorded.
    fn restored(self, path: Path, values: &Values) -> Restored {
        let (field, present) = (path.join("."), value(self.object, path));
        if present == values.after {
            return Restored::Set(FieldChange::new(&field, present, values.before.clone()));
        }
        if present == values.before {
            return Restored::Same;
        }
        let title = self.title();
        let cause = format!(
            "{field} of {title} was changed after setup and stays as it is; setup had set it to {}",
            shown(&values.after)
        );
        let next = format!(
            "if it should be as before setup, set it to {}",
            shown(&values.before)
        );
        Restored::Kept(warning(cause, next))
    }

    /// One write that removes the record.
    pub(super) fn forget(self) -> ObjectChange {
        let mut body = Value::Null;
        put(&mut body, RECORD, Value::Null);
        let field = FieldChange::new(&RECORD.join("."), json!(RECORDED), Value::Null);
        self.patch(body, vec![field])
    }
}

/// A value of a setting, in a sentence.
fn shown(value: &Value) -> String {
    if value.is_null() {
        return "nothing".to_owned();
    }
    value.to_string()
}
