//! The grammar of JSON, one step at a time.

use super::super::Unreadable;
use super::nest::Nest;
use super::text::{Text, find_quote_or_escape};
use super::{Raw, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Array,
    Object,
}

/// One step through a document.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event<'a> {
    Open(Shape),
    Close(Shape),
    Key(Text<'a>),
    Null,
    Bool(bool),
    Number(&'a [u8]),
    String(Text<'a>),
}

/// The next element of an array.
pub(super) enum Next<'a> {
    Value(Value<'a>),
    /// An object that begins here.
    Open {
        start: usize,
    },
}

/// What may stand next.
#[derive(Debug, Clone, Copy)]
enum Expect {
    Value,
    FirstValueOrEnd,
    FirstKeyOrEnd,
    CommaOrEnd,
    Nothing,
}

/// What has just been stepped over: an event without its text, so that skipping is cheap.
#[derive(Debug, Clone, Copy)]
pub(super) enum Token {
    Open(Shape),
    Close(Shape),
    Key,
    Null,
    Bool(bool),
    Number,
    String,
    Nothing,
}

/// The events of one value, the grammar checked on the way. After an error nothing is to be learnt
/// from it.
pub(crate) struct Walk<'a> {
    pub(super) body: &'a [u8],
    pub(super) at: usize,
    pub(super) nest: Nest,
    expect: Expect,
    /// The key, string or number just stepped over.
    text: Text<'a>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(body: &'a [u8]) -> Self {
        let text = Text {
            raw: &[],
            escaped: false,
        };
        Self {
            body,
            at: 0,
            nest: Nest::default(),
            expect: Expect::Value,
            text,
        }
    }

    /// The next event, `None` when the value is complete.
    pub(crate) fn next(&mut self) -> Result<Option<Event<'a>>, Unreadable> {
        Ok(Some(match self.step()? {
            Token::Nothing => return Ok(None),
            Token::Open(shape) => Event::Open(shape),
            Token::Close(shape) => Event::Close(shape),
            Token::Key => Event::Key(self.text),
            Token::Null => Event::Null,
            Token::Bool(value) => Event::Bool(value),
            Token::Number => Event::Number(self.text.raw),
            Token::String => Event::String(self.text),
        }))
    }

    /// The whole value that stands next; `None` where its container ends.
    pub(crate) fn value(&mut self) -> Result<Option<Value<'a>>, Unreadable> {
        let token = self.step()?;
        self.value_of(token)
    }

    /// The key that stands next, and its value; `None` where the object ends.
    #[inline]
    pub(super) fn member(&mut self) -> Result<Option<(Text<'a>, Value<'a>)>, Unreadable> {
        match self.step()? {
            Token::Key => {}
            _ => return Ok(None),
        }
        let key = self.text;
        let value = match self.byte()? {
            // As most are.
            b'"' => {
                self.string()?;
                self.complete(Token::String);
                Value::String(self.text)
            }
            _ => self.value()?.ok_or(Unreadable::Json)?,
        };
        Ok(Some((key, value)))
    }

    pub(super) fn value_of(&mut self, token: Token) -> Result<Option<Value<'a>>, Unreadable> {
        Ok(match token {
            Token::Nothing | Token::Close(_) => None,
            Token::Key => return Err(Unreadable::Json),
            Token::Null => Some(Value::Null),
            Token::Bool(value) => Some(Value::Bool(value)),
            Token::Number => Some(Value::Number(self.text.raw)),
            Token::String => Some(Value::String(self.text)),
            Token::Open(shape) => {
                // The bracket is the byte just read.
                let start = self.at.saturating_sub(1);
                let depth = self.nest.depth;
                while self.nest.depth >= depth {
                    self.step()?;
                }
                Some(self.container(shape, start))
            }
        })
    }

    pub(super) fn container(&self, shape: Shape, start: usize) -> Value<'a> {
        let raw = Raw(self.since(start));
        match shape {
            Shape::Array => Value::Array(raw),
            Shape::Object => Value::Object(raw),
        }
    }

    /// What stands next, an object not stepped over.
    pub(super) fn value_or_open(&mut self) -> Result<Option<Next<'a>>, Unreadable> {
        Ok(match self.step()? {
            Token::Open(Shape::Object) => Some(Next::Open {
                start: self.at.saturating_sub(1),
            }),
            token => self.value_of(token)?.map(Next::Value),
        })
    }

    /// The number of open containers.
    pub(super) fn depth(&self) -> usize {
        self.nest.depth
    }

    /// What an iterator yields: behind an error there is nothing more.
    pub(super) fn end_by<T>(
        &mut self,
        item: Option<Result<T, Unreadable>>,
    ) -> Option<Result<T, Unreadable>> {
        if let Some(Err(_)) = item {
            self.at = self.body.len();
            self.expect = Expect::Nothing;
            self.nest = Nest::default();
        }
        item
    }

    /// Checks that nothing but white space follows.
    pub(super) fn end(&mut self) -> Result<(), Unreadable> {
        self.space();
        if self.at < self.body.len() {
            Err(Unreadable::Json)
        } else {
            Ok(())
        }
    }

    #[inline]
    pub(super) fn step(&mut self) -> Result<Token, Unreadable> {
        let byte = match self.expect {
            Expect::Nothing => return Ok(Token::Nothing),
            _ => self.byte()?,
        };
        match (self.expect, byte) {
            (Expect::CommaOrEnd, b',') => {
                self.at += 1;
                match (self.nest.top(), self.byte()?) {
                    (Shape::Object, b'"') => self.key(),
                    (Shape::Object, _) => Err(Unreadable::Json),
                    (Shape::Array, byte) => self.scalar_or_open(byte),
                }
            }
            (Expect::FirstValueOrEnd, b']') => Ok(self.close(Shape::Array)),
            (Expect::FirstKeyOrEnd, b'}') => Ok(self.close(Shape::Object)),
            (Expect::FirstKeyOrEnd, b'"') => self.key(),
            (Expect::FirstKeyOrEnd, _) => Err(Unreadable::Json),
            (Expect::CommaOrEnd, b']') if self.nest.top() == Shape::Array => {
                Ok(self.close(Shape::Array))
            }
            (Expect::CommaOrEnd, b'}') if self.nest.top() == Shape::Object => {
                Ok(self.close(Shape::Object))
            }
            (Expect::CommaOrEnd, _) => Err(Unreadable::Json),
            (_, byte) => self.scalar_or_open(byte),
        }
    }

    #[inline]
    fn scalar_or_open(&mut self, byte: u8) -> Result<Token, Unreadable> {
        match byte {
            b'"' => {
                self.string()?;
                Ok(self.complete(Token::String))
            }
            b'{' => Ok(self.open(Shape::Object, Expect::FirstKeyOrEnd)),
            b'[' => Ok(self.open(Shape::Array, Expect::FirstValueOrEnd)),
            b't' => self.literal(b"true", Token::Bool(true)),
            b'f' => self.literal(b"false", Token::Bool(false)),
            b'n' => self.literal(b"null", Token::Null),
            b'N' => self.literal(b"NaN", Token::Number),
            b'I' => self.literal(b"Infinity", Token::Number),
            b'-' if self.rest().starts_with(b"-I") => self.literal(b"-Infinity", Token::Number),
            _ => {
                self.number()?;
                Ok(self.complete(Token::Number))
            }
        }
    }

    fn open(&mut self, shape: Shape, expect: Expect) -> Token {
        self.at += 1;
        self.nest.push(shape);
        self.expect = expect;
        Token::Open(shape)
    }

    fn close(&mut self, shape: Shape) -> Token {
        self.at += 1;
        self.nest.pop();
        self.complete(Token::Close(shape))
    }

    #[inline]
    pub(super) fn complete(&mut self, token: Token) -> Token {
        self.expect = if self.nest.depth == 0 {
            Expect::Nothing
        } else {
            Expect::CommaOrEnd
        };
        token
    }

    #[inline]
    fn key(&mut self) -> Result<Token, Unreadable> {
        self.string()?;
        if self.byte()? != b':' {
            return Err(Unreadable::Json);
        }
        self.at += 1;
        self.expect = Expect::Value;
        Ok(Token::Key)
    }

    fn literal(&mut self, word: &'static [u8], token: Token) -> Result<Token, Unreadable> {
        if !self.rest().starts_with(word) {
            return Err(Unreadable::Json);
        }
        self.at += word.len();
        self.text = Text {
            raw: word,
            escaped: false,
        };
        Ok(self.complete(token))
    }

    /// `-? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?`
    #[inline]
    fn number(&mut self) -> Result<(), Unreadable> {
        let start = self.at;
        self.eat(|byte| byte == b'-');
        if !self.eat(|byte| byte == b'0') {
            self.digits()?;
        }
        if self.eat(|byte| byte == b'.') {
            self.digits()?;
        }
        if self.eat(|byte| matches!(byte, b'e' | b'E')) {
            self.eat(|byte| matches!(byte, b'+' | b'-'));
            self.digits()?;
        }
        self.text = Text {
            raw: self.since(start),
            escaped: false,
        };
        Ok(())
    }

    /// One digit or more.
    #[inline]
    fn digits(&mut self) -> Result<(), Unreadable> {
        if !self.eat(|byte| byte.is_ascii_digit()) {
            return Err(Unreadable::Json);
        }
        while self.eat(|byte| byte.is_ascii_digit()) {}
        Ok(())
    }

    /// Steps over the next byte if it is one of these.
    #[inline(always)]
    fn eat(&mut self, these: impl Fn(u8) -> bool) -> bool {
        let found = self.body.get(self.at).is_some_and(|byte| these(*byte));
        self.at += usize::from(found);
        found
    }

    /// The string whose opening quote stands next; its escapes are checked, not decoded.
    #[inline]
    fn string(&mut self) -> Result<(), Unreadable> {
        self.at += 1;
        let start = self.at;
        let rest = self.rest();
        let hit = find_quote_or_escape(rest).ok_or(Unreadable::Json)?;
        self.at += hit;
        let escaped = rest.get(hit) != Some(&b'"');
        if escaped {
            self.escapes()?;
        }
        self.text = Text {
            raw: self.since(start),
            escaped,
        };
        self.at += 1;
        Ok(())
    }

    /// The next byte that is not white space.
    #[inline(always)]
    fn byte(&mut self) -> Result<u8, Unreadable> {
        self.space();
        self.body.get(self.at).copied().ok_or(Unreadable::Json)
    }

    #[inline(always)]
    fn space(&mut self) {
        // Most often there is none: one comparison for all four kinds.
        if self.body.get(self.at).is_some_and(|byte| *byte <= b' ') {
            while self.eat(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t')) {}
        }
    }

    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.body.get(self.at..).unwrap_or_default()
    }

    #[inline]
    pub(super) fn since(&self, start: usize) -> &'a [u8] {
        self.body.get(start..self.at).unwrap_or_default()
    }
}
