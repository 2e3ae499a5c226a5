//! `#[derive(Job)]`: gives a type its kind, its shape and its options.
//!
//! The macro writes what a person would write by hand, and nothing else: the constants of the trait `Job`, and
//! `options()` when an attribute sets one. What cannot be right is a compile error at the word that is wrong.
#![forbid(unsafe_code)]

mod attributes;
mod span;

use proc_macro::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields};

use attributes::Attributes;

/// Implements `windlass::Job`.
///
/// The type must be written and read by serde. Attributes, all in `#[job(…)]`:
///
/// | attribute | meaning |
/// |---|---|
/// | `kind = "mail.send"` | the stable name; required |
/// | `queue = "mail"` | the queue |
/// | `attempts = 5` | runs allowed, the first included |
/// | `retry = "sidekiq"`, `"fixed(10s)"`, `"exponential(1s, 1h)"`, `"list(1s, 10s, 1m)"` | delays between attempts |
/// | `retry_window = "3d"` | no retry later than this after the first failure |
/// | `timeout = "30s"` | the longest one run may take |
/// | `keep_done = "24h"` | how long the finished job and its result are kept |
/// | `expires_in = "1h"` | dead if it has not started by then |
/// | `at_most_once` | never run twice |
/// | `version = 2` | the version of the payload's format |
///
/// Spans are numbers with the units `ms`, `s`, `m`, `h`, `d`, also several together: `1h30m`.
///
/// A struct with named fields, an enum or a newtype is one argument; a tuple struct is its positions; a unit struct
/// has no arguments.
#[proc_macro_derive(Job, attributes(job))]
pub fn derive_job(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

fn expand(input: &DeriveInput) -> Result<proc_macro2::TokenStream, Error> {
    if let Some(parameter) = input.generics.params.first() {
        return Err(Error::new_spanned(parameter, "a job has one kind, so its type cannot be generic"));
    }
    let Attributes { kind, version, options } = Attributes::read(input)?;
    let (name, shape) = (&input.ident, shape(&input.data)?);
    Ok(quote! {
        #[automatically_derived]
        impl ::windlass::Job for #name {
            const KIND: &'static str = #kind;
            const SHAPE: ::windlass::job::ArgsShape = ::windlass::job::ArgsShape::#shape;
            const VERSION: u32 = #version;

            fn options() -> ::windlass::job::JobOptions {
                ::windlass::job::JobOptions::new()#(#options)*
            }
        }
    })
}

/// How values of the type look in the arguments.
fn shape(data: &Data) -> Result<proc_macro2::TokenStream, Error> {
    match data {
        Data::Enum(_) => Ok(quote!(Single)),
        Data::Struct(data) => match &data.fields {
            Fields::Unit => Ok(quote!(Empty)),
            Fields::Unnamed(fields) if fields.unnamed.len() != 1 => Ok(quote!(Positional)),
            Fields::Named(_) | Fields::Unnamed(_) => Ok(quote!(Single)),
        },
        Data::Union(data) => Err(Error::new_spanned(data.union_token, "a union cannot be a job")),
    }
}
