import {React} from '../react';

/** A table. The first cell of a row is its head. */
export function Table({heads, rows}: {heads: string[]; rows: React.ReactNode[][]}) {
    return (
        <table className='acda-plain'>
            <thead>
                <tr>
                    {heads.map(head => (
                        <th key={head} scope='col'>
                            {head}
                        </th>
                    ))}
                </tr>
            </thead>
            <tbody>
                {rows.map(([first, ...others], index) => (
                    <tr key={index}>
                        <th scope='row'>{first}</th>
                        {others.map((cell, column) => (
                            <td key={column}>{cell}</td>
                        ))}
                    </tr>
                ))}
            </tbody>
        </table>
    );
}
