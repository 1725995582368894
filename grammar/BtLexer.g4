// Tokens of the bpftrace language.
//
// There are two modes. The default mode reads the text between the items of a
// script: attach points are raw text, which only the lexer can delimit. The mode
// BODY reads everything else: bodies, predicates, headers of macros.
// frontend/parse switches between them by brace depth, removes C definitions
// first, and assigns some tokens their final type (see the list below).
lexer grammar BtLexer;

// Keywords have no rules here: frontend/parse looks words up in a table. The
// automaton of this lexer is generated ahead of time (parser/automaton_test.go)
// and works on bytes: all bytes above ASCII are one kind of character. So no rule
// may match a particular one of them, or need an action or a predicate.
tokens {
    // first words of items, instead of ATTACH
    CONFIG, IMPORT, MACRO, FN, LET,

    // keywords, instead of IDENT; also IMPORT and LET
    BREAK, COMPTIME, CONTINUE, ELSE, ENUM, FALSE, FOR, IF, OFFSETOF, RETURN,
    SIZEOF, STRUCT, TRUE, TYPEINFO, TYPEOF, UNION, UNROLL, WHILE,

    // types that frontend/parse assigns to tokens by their context, so that the
    // parser needs one token of lookahead
    S_IF,       // 'if' at the start of a statement
    S_LBRACE,   // '{' at the start of a statement
    CAST_OPEN,  // '(' of a cast
    TYPE_OPEN,  // '(' after sizeof, offsetof, typeof, typeinfo, before a type
    REC_OPEN,   // '(' of a record
    ENDPRED     // '/' that ends a predicate
}

// ---- between items

ATTACH  : HEAD+ (':' TAIL*)? | ':' TAIL* ;

fragment HEAD   : ~[ \t\r\n{},;/:"] | QUOTED ;
fragment TAIL   : ~[ \t\r\n{},;"] | QUOTED ;
fragment QUOTED : '"' (~["\\\n] | '\\' ~[\n])* '"' ;

COMMENT : (LINE_COMMENT | BLOCK_COMMENT) -> channel(HIDDEN) ;
WS      : [ \t\r\n\f\u000B]+ -> skip ;

TOP_COMMA  : ',' -> type(COMMA) ;
TOP_SEMI   : ';' -> type(SEMI) ;
TOP_LBRACE : '{' -> type(LBRACE) ;
TOP_RBRACE : '}' -> type(RBRACE) ;
TOP_SLASH  : '/' -> type(DIV) ;
TOP_ERR    : . -> type(ERR) ;

fragment LINE_COMMENT  : '//' ~[\n]* ;
fragment BLOCK_COMMENT : '/*' .*? ('*/' | EOF) ;

// ---- inside of items

mode BODY;

B_COMMENT : (LINE_COMMENT | BLOCK_COMMENT) -> type(COMMENT), channel(HIDDEN) ;
B_WS      : [ \t\r\n\f\u000B]+ -> skip ;

IDENT      : WORD ;
VAR        : '$' WORD ;
MAP        : '@' WORD? ;
PARAM      : '$' [0-9]+ ;
PARAMCOUNT : '$#' ;
INT        : [0-9] [0-9A-Za-z_]* ;
STRING     : '"' (~["\\\n] | '\\' ~[\n])* '"' ;
BADSTRING  : '"' (~["\\\n] | '\\' ~[\n])* '\\'? ;

fragment WORD : [A-Za-z_] [A-Za-z0-9_]* ;

LBRACE : '{' ;
RBRACE : '}' ;
LPAREN : '(' ;
RPAREN : ')' ;
LBRACK : '[' ;
RBRACK : ']' ;
COMMA  : ',' ;
SEMI   : ';' ;
COLON  : ':' ;
QUESTION : '?' ;
RANGE  : '..' ;
DOT    : '.' ;
ARROW  : '->' ;
INC    : '++' ;
DEC    : '--' ;
LOGOR  : '||' ;
LOGAND : '&&' ;
EQ     : '==' ;
NE     : '!=' ;
LE     : '<=' ;
GE     : '>=' ;
SHL    : '<<' ;
SHR    : '>>' ;
LT     : '<' ;
GT     : '>' ;
PLUS   : '+' ;
MINUS  : '-' ;
STAR   : '*' ;
DIV    : '/' ;
MOD    : '%' ;
AND    : '&' ;
OR     : '|' ;
XOR    : '^' ;
NOT    : '!' ;
TILDE  : '~' ;

ASSIGN     : '=' ;
ASSIGN_OP  : '+=' | '-=' | '*=' | '/=' | '%=' | '&=' | '|=' | '^=' | '<<=' | '>>=' ;

ERR : . ;
