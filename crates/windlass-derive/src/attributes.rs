//! What stands in `#[job(…)]`.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::meta::ParseNestedMeta;
use syn::{DeriveInput, Error, LitInt, LitStr};

use crate::span::parse_span_ms;

/// The longest name; the same as `windlass::job::NAME_LEN_MAX`, which the generated code checks.
const NAME_LEN_MAX: usize = 128;
/// The most attempts; the same as `windlass::retry::ATTEMPTS_MAX`.
const ATTEMPTS_MAX: u32 = 1_000;

/// Everything the attribute says.
pub(crate) struct Attributes {
    pub(crate) kind: LitStr,
    pub(crate) version: u32,
    /// Calls on `JobOptions::new()`.
    pub(crate) options: Vec<TokenStream>,
}

impl Attributes {
    pub(crate) fn read(input: &DeriveInput) -> Result<Attributes, Error> {
        let (mut kind, mut version, mut options) = (None, 0, Vec::new());
        for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("job")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("kind") {
                    kind = Some(name(&meta)?);
                } else if meta.path.is_ident("version") {
                    version = meta.value()?.parse::<LitInt>()?.base10_parse()?;
                } else {
                    options.push(option(&meta)?);
                }
                Ok(())
            })?;
        }
        let missing = || {
            let message = "a job needs a stable name: #[job(kind = \"mail.send\")]; it is stored with every job, so it \
                           must not change when the type is renamed";
            Error::new(input.ident.span(), message)
        };
        Ok(Attributes { kind: kind.ok_or_else(missing)?, version, options })
    }
}

fn option(meta: &ParseNestedMeta<'_>) -> Result<TokenStream, Error> {
    let Some(word) = meta.path.get_ident() else {
        return Err(unknown(meta));
    };
    match word.to_string().as_str() {
        "queue" => {
            let queue = name(meta)?;
            Ok(quote!(.queue(#queue)))
        }
        "attempts" => {
            let attempts: LitInt = meta.value()?.parse()?;
            if !(1..=ATTEMPTS_MAX).contains(&attempts.base10_parse::<u32>()?) {
                return Err(Error::new(attempts.span(), format!("attempts must be between 1 and {ATTEMPTS_MAX}")));
            }
            Ok(quote!(.attempts(#attempts)))
        }
        "retry" => {
            let policy = retry(&meta.value()?.parse()?)?;
            Ok(quote!(.retry(#policy)))
        }
        "at_most_once" => Ok(quote!(.at_most_once(true))),
        "retry_window" | "timeout" | "keep_done" | "expires_in" => {
            let span = span(&meta.value()?.parse()?)?;
            Ok(quote_spanned!(word.span()=> .#word(#span)))
        }
        _ => Err(unknown(meta)),
    }
}

fn unknown(meta: &ParseNestedMeta<'_>) -> Error {
    meta.error(
        "unknown attribute: expected kind, queue, attempts, retry, retry_window, timeout, keep_done, expires_in, \
         at_most_once or version",
    )
}

/// The name of a kind or a queue.
fn name(meta: &ParseNestedMeta<'_>) -> Result<LitStr, Error> {
    let name: LitStr = meta.value()?.parse()?;
    let text = name.value();
    let is_allowed = |c: char| c.is_alphanumeric() || "_-.:/@".contains(c);
    if text.is_empty() || text.len() > NAME_LEN_MAX || !text.chars().all(is_allowed) {
        let message = format!("a name has 1 to {NAME_LEN_MAX} letters, digits or any of _ - . : / @");
        return Err(Error::new(name.span(), message));
    }
    Ok(name)
}

fn span(text: &LitStr) -> Result<TokenStream, Error> {
    let ms = parse_span_ms(&text.value()).map_err(|message| Error::new(text.span(), message))?;
    Ok(quote!(::core::time::Duration::from_millis(#ms)))
}

/// A retry policy in words: `sidekiq`, `fixed(10s)`, `exponential(1s, 1h)`, `list(1s, 10s)`.
fn retry(text: &LitStr) -> Result<TokenStream, Error> {
    let value = text.value();
    let policies = "expected sidekiq, fixed(10s), exponential(1s, 1h) or list(1s, 10s, 1m)";
    let error = |message: String| Error::new(text.span(), message);
    let (word, spans) = match value.split_once('(') {
        None => (value.as_str(), Vec::new()),
        Some((word, rest)) => {
            let inner = rest.strip_suffix(')').ok_or_else(|| error(format!("no closing parenthesis: {policies}")))?;
            let spans = inner.split(',').map(|span| parse_span_ms(span.trim()).map_err(error));
            (word, spans.collect::<Result<Vec<u64>, Error>>()?)
        }
    };
    match (word, &spans[..]) {
        ("sidekiq", []) => Ok(quote!(::windlass::retry::RetryPolicy::Sidekiq)),
        ("fixed", [delay_ms]) => Ok(quote!(::windlass::retry::RetryPolicy::Fixed { delay_ms: #delay_ms })),
        ("exponential", [base_ms, cap_ms]) => {
            Ok(quote!(::windlass::retry::RetryPolicy::Exponential { base_ms: #base_ms, cap_ms: #cap_ms }))
        }
        ("list", [_, ..]) => Ok(quote!(::windlass::retry::RetryPolicy::List { delays_ms: ::std::vec![#(#spans),*] })),
        _ => Err(error(format!("unknown retry policy: {policies}"))),
    }
}

#[cfg(test)]
mod tests {
    use quote::ToTokens;
    use syn::parse_quote;

    use super::*;

    fn error_of(input: DeriveInput) -> String {
        Attributes::read(&input).err().map_or_else(|| "no error".to_owned(), |error| error.to_string())
    }

    #[test]
    fn a_kind_is_required_and_the_message_says_why() {
        assert!(
            error_of(parse_quote!(
                struct A;
            ))
            .contains("stable name")
        );
    }

    #[test]
    fn an_unknown_attribute_is_refused_with_those_that_are_known() {
        assert!(
            error_of(parse_quote!(
                #[job(kind = "a", color = "red")]
                struct A;
            ))
            .contains("retry_window")
        );
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        assert!(
            error_of(parse_quote!(
                #[job(kind = "a b")]
                struct A;
            ))
            .contains("letters")
        );
        assert!(
            error_of(parse_quote!(
                #[job(kind = "a", attempts = 0)]
                struct A;
            ))
            .contains("between 1")
        );
        assert!(
            error_of(parse_quote!(
                #[job(kind = "a", timeout = "soon")]
                struct A;
            ))
            .contains("span of time")
        );
        assert!(
            error_of(parse_quote!(
                #[job(kind = "a", retry = "never")]
                struct A;
            ))
            .contains("exponential")
        );
        assert!(
            error_of(parse_quote!(
                #[job(kind = "a", retry = "fixed(1s")]
                struct A;
            ))
            .contains("parenthesis")
        );
    }

    #[test]
    fn every_option_becomes_a_call() {
        let input = parse_quote! {
            #[job(kind = "a", queue = "q", attempts = 3, retry = "list(1s, 2s)", timeout = "1m", at_most_once)]
            struct A;
        };
        let attributes = Attributes::read(&input).unwrap_or_else(|error| panic!("{error}"));

        let calls: Vec<String> =
            attributes.options.iter().map(|call| call.to_token_stream().to_string().replace(' ', "")).collect();

        assert_eq!(calls[0], ".queue(\"q\")");
        assert!(calls[2].contains("delays_ms:::std::vec![1000u64,2000u64]"), "{}", calls[2]);
        assert!(calls[3].contains("60000u64"), "{}", calls[3]);
        assert_eq!(calls[4], ".at_most_once(true)");
    }
}
