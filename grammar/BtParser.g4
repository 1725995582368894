// The bpftrace language, without C definitions (frontend/parse removes them).
//
// The grammar is LL(1), so the generated parser has no adaptive prediction; a
// test checks that. What one token of lookahead cannot decide is either decided
// by the types of tokens (see BtLexer.g4) or left to frontend/parse:
// the precedence of binary operators, what may be assigned, the last expression
// of a block, two commas in a row.
parser grammar BtParser;

options { tokenVocab = BtLexer; }

script : item* EOF ;

// A single expression: the value of a #define.
loneExpr : expr EOF ;

item
    : config
    | importDef
    | macro
    | funcDef
    | mapDecl
    | probe
    | SEMI
    ;

// ---- items

config      : CONFIG ASSIGN LBRACE configEntry? (SEMI configEntry?)* RBRACE ;
configEntry : IDENT ASSIGN configValue ;
configValue : STRING | INT | TRUE | FALSE | IDENT ;

importDef : IMPORT STRING SEMI ;

macro      : MACRO IDENT LPAREN (macroParam (COMMA macroParam)*)? RPAREN body ;
macroParam : VAR | MAP | IDENT ;

funcDef   : FN IDENT LPAREN (funcParam (COMMA funcParam)*)? RPAREN COLON typeName body ;
funcParam : VAR COLON typeName ;

mapDecl : LET MAP ASSIGN IDENT LPAREN INT RPAREN ;

probe     : ATTACH (COMMA ATTACH?)* predicate? body ;
predicate : DIV expr ENDPRED ;

// ---- statements

body  : (LBRACE | S_LBRACE) stmts RBRACE ;
stmts : control* simple? (SEMI control* simple?)* ;

control
    : S_IF ifRest
    | S_LBRACE stmts RBRACE
    | whileStmt
    | unrollStmt
    | forStmt
    ;

whileStmt  : WHILE expr body ;
unrollStmt : UNROLL expr body ;
forStmt    : FOR (LPAREN forHead RPAREN | forHead) body ;
forHead    : VAR COLON unary (RANGE unary)? ;

simple
    : LET VAR (COLON typeName)? (ASSIGN expr)?
    | BREAK
    | CONTINUE
    | RETURN expr?
    | IMPORT STRING
    | expr ((ASSIGN | ASSIGN_OP) expr)?
    ;

// ---- expressions

expr   : binary (QUESTION expr? COLON expr)? ;
binary : unary (binop unary)* ;
binop
    : LOGOR | LOGAND | OR | XOR | AND | EQ | NE | LT | GT | LE | GE
    | SHL | SHR | PLUS | MINUS | STAR | DIV | MOD
    ;

unary
    : (MINUS | NOT | TILDE | STAR | AND | INC | DEC | COMPTIME) unary
    | CAST_OPEN typeName RPAREN unary
    | postfix
    ;

postfix : primary suffix* ;
suffix
    : DOT (IDENT | INT)
    | ARROW IDENT
    | LBRACK expr (COMMA expr)* RBRACK
    | INC
    | DEC
    ;

primary
    : IDENT call?
    | VAR
    | MAP
    | PARAM
    | PARAMCOUNT
    | INT
    | STRING
    | TRUE
    | FALSE
    | LPAREN (expr (COMMA expr?)*)? RPAREN
    | REC_OPEN recordField (COMMA recordField)* RPAREN
    | IF ifRest
    | LBRACE stmts RBRACE
    | SIZEOF typeOrExpr RPAREN
    | TYPEINFO typeOrExpr RPAREN
    | OFFSETOF typeOrExpr COMMA IDENT (DOT IDENT)* RPAREN
    ;

ifRest      : expr body (ELSE (IF ifRest | body))? ;
call        : LPAREN (arg (COMMA arg)*)? RPAREN ;
arg         : expr | typeofType | tagType ;
recordField : IDENT ASSIGN expr ;

// ---- types

typeOrExpr : LPAREN expr | TYPE_OPEN typeName ;
typeName   : IDENT typeSuffix* | tagType | typeofType ;
tagType    : (STRUCT | UNION | ENUM) IDENT typeSuffix* ;
typeofType : TYPEOF typeOrExpr RPAREN typeSuffix* ;
typeSuffix : STAR | LBRACK INT? RBRACK ;
